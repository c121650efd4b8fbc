# The whole product in two targets: `make run` and `make test`. Everything sets up what it misses.

# Repetitions of each cell; auto goes on until the intervals decide.
REPEAT ?= 1
SCENARIO ?= scenarios/satellite/medium.yaml
# Names separated by commas, or all; without servers, the clients'.
# picoquic's image can be built for x86-64 alone.
comma := ,
CLIENTS ?= $(if $(filter x86_64,$(shell uname -m)),picoquic$(comma))ngtcp2,quiche,quic-go
SERVERS ?=
# A registry that images are taken from, where it has them, instead of built.
FROM ?= $(HARNESS_REGISTRY)
export HARNESS_REGISTRY := $(FROM)
# Name of the image that `make container` makes.
IMAGE ?= quic-lab:dev
# Of `make interop`: who plays, and whose logs and captures are kept: failed, full (of all) or figures (of none).
INTEROP ?= all
KEEP ?= failed
# compose (real time, containers) or virtual (virtual time, one kernel). Without it `make run` answers in virtual time
# first and then runs each implementation with itself in real time, and `make nightly` runs in real time.
ENGINE ?=
# Faults of `make chaos`, the seed of their schedule, and one of them alone by its number.
FAULTS ?= 200
SEED ?= 1
ONLY ?=
# Store of the night's runs, that of the runs they are compared with, a file of accepted changes, and how often at most
# what cannot be told is repeated.
NIGHT ?= results/nights/$(shell date +%F)
BASELINE ?= results/baseline
# The folder of nights whose trend the site shows, if it is there.
NIGHTS ?= results/nights
ALLOW ?=
UNTIL ?=
# Whether a night tries the entries of results/equivalences.yaml again, about 8 minutes on two cores; nothing for no.
PROOFS ?= yes
# A part of the matrix, as K/N; all of it without.
SHARD ?=
# Further words of the night's `harness run`, as --image quiche=mine/quiche:dev.
WORDS ?=
# Anything but nothing: setup may start a Docker daemon that somebody else installed and that stands still.
YES ?= $(HARNESS_YES)
HARNESS := .venv/bin/harness

# What people, jobs and the environment set reaches the shell as variables of its own, never as part of a recipe: it is
# split into words, and run as nothing.
export SCENARIO CLIENTS SERVERS REPEAT INTEROP KEEP ENGINE FAULTS SEED ONLY NIGHT NIGHTS BASELINE ALLOW UNTIL SHARD WORDS IMAGE

# Where it is set, every process would compile every module anew: that is half a minute of the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup locks images container run docs interop nightly night gate proofs test check unit lab hosts chaos bench generate golden reference reference-real clean

setup:
	@harness/setup/setup.sh $(if $(YES),--yes)

# Renew the hashes that builds hold what they download against: requirements.lock, crates.lock, images' requirements.txt.
locks: setup images
	@harness/setup/locks.sh .

# Every image that can be built here, with its size; those that need a registry or a repository are named.
images: setup
	@$(HARNESS) images

# The harness, the lab kernel and some implementations in one image, for who has Docker alone (docs/where-it-runs.md).
container: setup
	@$(HARNESS) images $$(echo "$$CLIENTS" | tr , ' ') --container "$$IMAGE"

# Exit code 1 means that some verdict failed: an answer, not an accident.
run: setup
	@if [ -n "$$ENGINE" ]; then set -- --engine "$$ENGINE"; else set -- --engine virtual --check-real; fi; \
	$(HARNESS) run $$SCENARIO --clients "$$CLIENTS" --servers "$${SERVERS:-$$CLIENTS}" --repeat "$$REPEAT" --html results/site "$$@" || \
	  [ $$? -eq 1 ]

# The pages as a site: .state/docs/site/index.html. It needs no network; search needs a server, such as
# python3 -m http.server --directory .state/docs/site.
docs: setup
	@.venv/bin/python -m tools.docs_site
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

# The matrix, what has changed since the baseline (the first night that finds none becomes it), and whether the digests
# that are held to be the same still are. A closed gate does not keep the proofs from being tried.
nightly: night
	@$(MAKE) --no-print-directory -k gate $(if $(PROOFS),proofs)

# Every entry of results/equivalences.yaml, by the stored runs that rest on it.
proofs: setup
	@$(HARNESS) equivalent --again

# Failed verdicts are answers: whether one is new, the gate says. A shard may have nothing to do.
night: setup
	@$(HARNESS) run $$SCENARIO --clients "$$CLIENTS" --servers "$${SERVERS:-$$CLIENTS}" --repeat "$$REPEAT" \
	  --engine "$${ENGINE:-compose}" --store "$$NIGHT" --no-figures $${SHARD:+--shard "$$SHARD"} $$WORDS || \
	  case $$?:$$SHARD in 1:* | 5:?*) ;; *) exit 1 ;; esac

# An open gate makes the night the next one's baseline. summary.markdown, junit.xml and site/ are in the night's folder.
gate: setup
	@$(HARNESS) gate --baseline "$$BASELINE" --store "$$NIGHT" --update-baseline \
	  --html "$$NIGHT/site" $$(test ! -d "$$NIGHTS" || echo --nights "$$NIGHTS") \
	  --junit "$$NIGHT/junit.xml" --summary "$$NIGHT/summary.markdown" $${ALLOW:+--allow "$$ALLOW"} $${UNTIL:+--until "$$UNTIL"}

# The interop runner's test cases, everyone who is here with everyone, in virtual time; goes on where it was interrupted.
interop: setup
	@$(HARNESS) run scenarios/interop --clients "$$INTEROP" --servers "$$INTEROP" --engine virtual --repeat 1 --no-figures --evidence "$$KEEP" || [ $$? -eq 1 ]
	@$(HARNESS) report interop

test: check unit lab

# Style, types, layering, and that generated files are in step.
check: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/mypy --python-version 3.13 images/sim/simulator
	.venv/bin/mypy --python-version 3.13 images/linux/traffic
	.venv/bin/lint-imports
	.venv/bin/python -m tools.house --check
	$(HARNESS) validate
	.venv/bin/python -m tests.workflows

# Nothing of the machine but its CPU time is asked for, so that every core takes a share: one half of the files each, in
# order, so that what a file's tests compute in common is computed once; whoever is done first takes from the other's end.
unit: setup
	.venv/bin/pytest -q -m "not lab and not hosts" -n auto --dist worksteal

# Real kernel, real endpoints, real transfers. Builds the images it needs. Five failures are enough to see what they share.
# What runs in real time has the machine to itself; virtual time does not mind company, so that every core takes a share,
# whole files each, as what a file's tests compute in common is computed once. The slowest are named at the end of each.
lab: setup
	.venv/bin/pytest -q -m "lab and alone" --maxfail 5 --durations 15
	.venv/bin/pytest -q -m "lab and not alone" -n auto --dist loadfile --maxfail 5 --durations 30

# Machines that people have, nightly: a stock kernel's own queues, by an ordinary user (a guest with Docker); NAT, moves,
# faults and systemd (an emulated machine; with USE_KVM=1 by KVM); and images for arm64, with their programs translated.
# Some 25 minutes, and at first 15 more, as Debian for arm64 and its images are built.
hosts: setup
	.venv/bin/pytest -q -m hosts

# Faults of the ground, done to the harness at work: killed, stopped, interrupted, without disk, with damaged files.
chaos: setup
	@.venv/bin/python -m tests.chaos --faults "$$FAULTS" --seed "$$SEED" $${ONLY:+--only "$$ONLY"}

bench: setup
	@.venv/bin/python -m tools.bench

# Schemas, compose/, the figures and the pages, from the model and the stored runs.
generate: setup
	.venv/bin/python -m tools.reference figures
	.venv/bin/python -m tools.reference generate

# The runs behind the pages, as far as they are missing, and the pages. Goes on where it was interrupted.
reference: setup
	.venv/bin/python -m tools.reference run
	$(MAKE) generate

# Those in real time; the machine should have nothing else to do.
reference-real: setup
	.venv/bin/python -m tools.reference run --engine compose
	$(MAKE) generate

golden: setup
	.venv/bin/pytest -q -m "not lab" --snapshot-update

# Removes what the project made (containers, networks, images, environment), and nothing else. Results stay.
clean:
	@if [ -x $(HARNESS) ]; then $(HARNESS) clean; fi
	rm -rf .venv .state .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
