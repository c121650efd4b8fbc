"""Makes the lab kernel itself faster: run behind adapt_inproc.py, in the kernel's source folder.

A guest's kernel takes as much time as its programs do. What is changed here are things it does millions of times in a
run, in a way that suits many processors and hosts, where there is one of each.
"""

from pathlib import Path

from edits import UM, change

# Whether interrupts are on is a variable, and turning them off is to clear it: not worth a call each. There is one
# processor, so it need not be the thread's own.
change(
    UM / "include/asm/irqflags.h",
    (r"^int um_get_signals\(void\);\n", "int um_get_signals(void);\nextern int signals_enabled;\n"),
    (r"\treturn um_get_signals\(\);\n", "\treturn signals_enabled;\n"),
    (
        r"\tum_set_signals\(flags\);\n",
        "\tif (flags == signals_enabled)\n\t\treturn;\n"
        "\tif (flags)\n\t\tunblock_signals();\n\telse\n\t\tblock_signals();\n",
    ),
    (
        r"^static inline void arch_local_irq_disable\(void\)\n\{\n\tblock_signals\(\);\n",
        "static inline void arch_local_irq_disable(void)\n{\n\tsignals_enabled = 0;\n\tbarrier();\n",
    ),
)
change(UM / "os-Linux/internal.h", (r"extern __thread int signals_enabled;", "extern int signals_enabled;"))
change(UM / "os-Linux/signal.c", (r"^__thread int signals_enabled;", "int signals_enabled;"))

# User Mode Linux never asks what its processor is good at, and copies with a loop for the oldest.
for name, feature in (("memcpy", "FSRM"), ("memset", "FSRS")):
    change(
        Path(f"arch/x86/lib/{name}_64.S"),
        (rf'\tALTERNATIVE "jmp {name}_orig", "", X86_FEATURE_{feature}\n', ""),
    )

# The kernel is one program of a few MB: its parts reach each other by distances of 32 bits, wherever it is.
change(UM / "Makefile", (r"-mcmodel=large", "-mcmodel=small -fpie"))
