#!/bin/sh
# gcc for the kernel's files, with the headers that nearly all of them include read once and precompiled (GCC manual,
# Using Precompiled Headers): reading them is most of the time that a file takes. Called as gcc is, from the kernel's
# top folder: make CC="sh cc.sh". Everything that is in doubt is compiled as ever.
here=${0%/*}

# Whether these words compile one of the kernel's own files to which the headers say the same as to all others: outside
# arch/, which has flags of its own, and without definitions before its includes, which may change what those say.
eligible() {
  kernel= object=
  for word; do
    case $word in
      -D__KERNEL__) kernel=1 ;;
      -c) object=1 ;;
    esac
  done
  case $kernel$object$word in
    11net/*.c | 11drivers/*.c | 11fs/*.c | 11mm/*.c | 11kernel/*.c | 11lib/*.c | 11ipc/*.c | 11security/*.c) ;;
    *) return 1 ;;
  esac
  awk '/^#[ \t]*(define|undef)/ && !/define[ \t]+pr_fmt\(/ { defined = 1 }
       /^#[ \t]*include[ \t]*</ && defined { exit 1 }' "$word"
}

# Precompile with these words, less what belongs to one file: its source and output, its dependencies, the names that
# Kbuild gives it, and what Kbuild includes ahead of it, which lab_headers.h does.
precompile() {
  skip=
  for word; do
    shift
    case $skip$word in
      skip*) skip= ;;
      -o | -include) skip=skip ;;
      -c | *.c | -Wp,-MMD,* | -DKBUILD_* | -D__KBUILD_*) ;;
      *) set -- "$@" "$word" ;;
    esac
  done
  gcc "$@" -x c-header -o lab_headers.new "$here/lab_headers.h" || {
    echo "cc.sh: without precompiled headers: the kernel has others than lab_headers.h says" >&2
    : >lab_headers.new # gcc takes it for none, and every file is compiled as ever
  }
  mv lab_headers.new lab_headers.h.gch
}

# Compile with the precompiled headers. A macro of the command line that they mention would make them invalid, so the
# file's names come in a header of their own behind them.
compile() {
  skip= output= names=
  for word; do
    shift
    case $skip$word in
      drop*) skip=; continue ;;
      output*) skip=; output=$word ;;
      -o) skip=output ;;
      -include) skip=drop; continue ;;
      -DKBUILD_* | -D__KBUILD_*)
        word=${word#-D}
        names="$names#define ${word%%=*} ${word#*=}
"
        continue
        ;;
    esac
    set -- "$@" "$word"
  done
  printf '%s' "$names" >"$output.names.h"
  gcc -include ./lab_headers.h -include "$output.names.h" "$@" 2>/dev/null
}

if eligible "$@"; then
  (
    flock 9
    [ -e lab_headers.h.gch ] || precompile "$@"
  ) 9>lab_headers.lock && compile "$@" && exit
fi
exec gcc "$@"
