# Needs only python3 (3.11 or newer), pip and make. Everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# setuptools warns that what pyproject.toml says of the kernel is young; nobody who installs can do anything about it.
PIP := PYTHONWARNINGS=ignore $(PY) -m pip --disable-pip-version-check
DEMO_DIR ?= $(VENV)/demo

# The checkout's folders (schedule, …) must not be importable under their bare names, here or in Spark's workers.
export PYTHONSAFEPATH := 1
# Tests start Python hundreds of times: without its bytecode each start compiles the package again.
unexport PYTHONDONTWRITEBYTECODE

# What an editable install depends on: its settings and what is compiled. Python files are read from the checkout.
BUILT_FROM := pyproject.toml $(wildcard store/native/c/*.c store/native/c/*.h)

.PHONY: help venv demo bytecode test test-long test-lowest-spark test-pythons check docs bench targets readers delay messaging fuzz soak campaign coverage mutants load-test proxy-answers clients soak-serve cluster cluster-demo large-store wheels clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    put, kill, recover, read, then scan with Spark (installs what it needs into $(VENV))'
	@echo 'make test    the quick tests in several processes; more with PYTEST_ARGS="-k name --full"'
	@echo 'make test-long  all other tests: RocketMQ and Spark beside the store, random histories, crashes and power cuts'
	@echo 'make test-lowest-spark  what the Spark source does at least, with the oldest Spark that is served'
	@echo 'make test-pythons  the suite with every other Python found (3.12, 3.13, 3.14), with the kernel and without'
	@echo 'make coverage  how much of store, index and engine the suite runs'
	@echo 'make mutants  change one thing at a time in store, index, schedule and engine: do tests fail? MUTANTS=500, SEED=7'
	@echo 'make load-test  tests of clocks, threads, processes, sockets: ROUNDS=20 times at load 40 (PROCESSES=40, TESTS=files)'
	@echo 'make proxy-answers  do proxies of RocketMQ answer as recorded? PROXIES=5.5.0, RECORD=1'
	@echo 'make clients  official clients of every language, oldest and newest, at the server; AGAINST=FOLDER_OF_JARS, ONLY=java'
	@echo 'make cluster  RocketMQ of several releases takes stores over, replicates them, fails over, and gives them back'
	@echo 'make cluster-demo  a store goes to RocketMQ with two brokers, loses its master and comes back; RELEASE=5.5.0'
	@echo 'make soak-serve  clients that come and go at a server; MINUTES=30 CLIENTS=200'
	@echo 'make check   ruff and mypy'
	@echo 'make docs    site/: the documents and the API reference; broken links and references fail'
	@echo 'make bench   the benchmarks: put, read, query, recovery and Spark scan beside what this machine can do at best'
	@echo 'make targets  every figure that the store has to come to, against its target; ROCKETMQ=FOLDER_OF_JARS, ONLY=put,read'
	@echo 'make readers, make delay, make messaging  the loads behind docs/; ARGS="--quick --plot delay.svg"'
	@echo 'make fuzz    the fuzz targets for ten minutes, or SECONDS=3600; needs clang and its compiler-rt'
	@echo 'make large-store  verify beside reading 10 GiB, and backup of one more segment; GIB=10, FOLDER=where three times that is free'
	@echo 'make campaign  random histories and power cuts at full size, with new seeds, for some hours'
	@echo 'make soak    a store under load, kills, power cuts and full disks for an hour, or MINUTES=600'
	@echo 'make wheels  dist/: wheels for Linux (glibc 2.17 or newer) on x86-64 and aarch64, Python 3.11 or newer'
	@echo 'make venv    $(VENV) with everything that the targets above need'
	@echo 'make clean   remove $(VENV) and everything that was built'

# Debian splits ensurepip off its python3; pip can then still fill the environment from outside.
$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo 'flightlog needs Python 3.11 or newer: name one with  make PYTHON=/path/to/python3.11 ...' >&2; exit 1; }
	@mkdir -p $(dir $(VENV)); $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 \
	    || { $(PYTHON) -m venv --clear --without-pip $(VENV) && $(PYTHON) -m pip --python $(PY) install -q pip; } \
	    || { echo 'flightlog needs pip for $(PYTHON): install python3-pip or python3-venv' >&2; exit 1; }
	@touch $@

$(VENV)/.core: $(VENV)/.created $(BUILT_FROM)
	@echo 'Installing flightlog and its core (numpy, crc32c; about 17 MB) into $(VENV) …'
	@$(PIP) install -q -e .
	@touch $@

$(VENV)/.spark: $(VENV)/.core
	@echo 'Now Spark: pyspark, pyarrow and a Java, about 550 MB to fetch and 750 MB on disk. This happens once.'
	@$(PIP) install 'flightlog[spark]'
	@touch $@

$(VENV)/.all: $(VENV)/.core
	@echo 'Installing everything that tests and checks need (Spark included: about 600 MB to fetch, once) …'
	@$(PIP) install -q 'flightlog[all]'
	@touch $@ $(VENV)/.spark

venv: $(VENV)/.all

demo: $(VENV)/.core
	@rm -rf $(DEMO_DIR) && mkdir -p $(DEMO_DIR)
	@$(PY) -m flightlog.tools.demo.store_stage $(DEMO_DIR)
	@$(MAKE) --no-print-directory $(VENV)/.spark
	@$(PY) -m flightlog.tools.demo.spark_stage $(DEMO_DIR)

# Two or three processes more than there are cores, five at most (tests/conftest.py); PYTEST_ARGS=-n0 for one. Benchmarks need one.
# tests/conftest.py puts what takes long first: its order is kept. The run ends, and fails, where a process crashes:
# pytest-xdist's other way, a new process in its place, waits for ever for the rest of its tests.
PYTEST := $(VENV)/bin/pytest --benchmark-disable --durations=10
IN_PROCESSES := -n auto --dist loadgroup --no-loadscope-reorder --max-worker-restart=0

test: $(VENV)/.all
	$(PYTEST) $(IN_PROCESSES) -m 'not ci' $(PYTEST_ARGS)

# Once before the processes of a first run, each of which would otherwise compile all tests and all that they import.
bytecode: $(VENV)/.all
	$(VENV)/bin/pytest -n0 --collect-only -q >/dev/null

# What `make test` leaves out, and nothing else.
test-long: $(VENV)/.all
	$(PYTEST) $(IN_PROCESSES) -m ci $(PYTEST_ARGS)

# What draws at random, or tries every point: histories, faults, power cuts, interrupts. Not part of CI. FLIGHTLOG_SEED=7 repeats a run.
CAMPAIGN_TESTS := tests/crash tests/model tests/fuzz tests/consume/test_rebalance_model.py \
    tests/consume/test_stores_lives.py tests/consume/test_starts.py tests/faults/test_any_operation.py \
    tests/schedule/test_timer_lives.py tests/schedule/test_level_machine.py tests/interop/test_pop_histories.py \
    tests/consume/test_pop_lives.py tests/consume/test_pop_faults.py tests/produce/test_transaction_machine.py \
    tests/produce/test_transaction_faults.py tests/consume/test_retry_power.py tests/consume/test_pull_lives.py \
    tests/interop/test_transaction_histories.py tests/engine/test_life_interrupt.py tests/engine/test_keys_power.py \
    tests/engine/test_follow.py tests/interop/test_follow.py tests/consume/test_pop_dead_letters.py \
    tests/consume/test_ordered.py tests/interop/test_sql_filter.py tests/consume/test_pop_memory.py
campaign: $(VENV)/.all
	$(PYTEST) $(IN_PROCESSES) --full $(CAMPAIGN_TESTS) $(PYTEST_ARGS)

# The oldest Spark that is served: its folder stands before the newest's on the path. No pushdown there (4.1), no
# admission control (4.2). All that goes through Spark but clusters, live writers and remote stores, which take long. The
# bytes of golden stores reach every Spark by the same columns: one store of each shape of rows is enough here.
LOWEST_SPARK := 4.0
LOWEST_SPARK_TESTS := $(addprefix tests/spark/test_,source.py queue_table.py source_golden.py source_options.py source_write.py \
    source_selection.py source_places.py streaming.py stream_write.py tables.py recipes.py session.py)
LOWEST_SPARK_CHOICE := (not (golden and not (rollover or delay-tx or flipped or compressed or inner_batches))) \
    and not (streams_may_begin_in_one_moment and False)
$(VENV)/.lowest-spark: $(VENV)/.all
	@echo 'Installing Spark $(LOWEST_SPARK) (about 430 MB to fetch, once) …'
	@rm -rf $(VENV)/lowest-spark
	@$(PIP) install -q --target $(VENV)/lowest-spark 'pyspark==$(LOWEST_SPARK).*'
	@touch $@

test-lowest-spark: $(VENV)/.lowest-spark
	PYTHONPATH=$(CURDIR)/$(VENV)/lowest-spark $(PYTEST) -n0 -k '$(LOWEST_SPARK_CHOICE)' $(LOWEST_SPARK_TESTS) $(PYTEST_ARGS)

# One environment a Python, each filled once (about 600 MB to fetch). Both runs of a Python end before the next starts;
# every Python has its turn, and the target fails if any run failed or if no Python was found. SUITE=test is quick.
PYTHONS ?= 3.12 3.13 3.14
SUITE ?= test test-long
test-pythons:
	@ran=; absent=; failed=; \
	for version in $(PYTHONS); do \
	    python$$version -c '' 2>/dev/null || { absent="$$absent $$version"; continue; }; \
	    for pure in 0 1; do \
	        echo "=== Python $$version, FLIGHTLOG_PURE=$$pure ==="; \
	        FLIGHTLOG_PURE=$$pure $(MAKE) -k --no-print-directory $(SUITE) PYTHON=python$$version VENV=.venv/pythons/$$version \
	            || failed="$$failed $$version(FLIGHTLOG_PURE=$$pure)"; \
	    done; \
	    ran="$$ran $$version"; \
	done; \
	echo "ran:$${ran:- none}; not on this machine:$${absent:- none}; failed:$${failed:- none}"; \
	test -n "$$ran" -a -z "$$failed"

# FLIGHTLOG_ROOT: where the rooms are, for children that run in other folders.
coverage: $(VENV)/.all
	@rm -rf .coverage
	FLIGHTLOG_ROOT=$(CURDIR) $(PY) -m coverage run -m pytest \
	    $(IN_PROCESSES) --benchmark-disable $(PYTEST_ARGS)
	@$(PY) -m coverage combine -q
	@$(PY) -m coverage report
	@$(PY) -m coverage json -q -o .coverage/report.json
	@$(PY) tests/support/covered_rooms.py .coverage/report.json

$(VENV)/.mutants: $(VENV)/.all
	@$(PIP) install -q 'flightlog[mutants]'
	@touch $@

# Asks RocketMQ's own proxies, which Maven brings, what tests/serve/proxy asks the server; RECORD=1 keeps their answers.
PROXIES ?= 5.3.3 5.5.0
proxy-answers: $(VENV)/.all
	@for version in $(PROXIES); do \
	    jars=$(CURDIR)/$(VENV)/proxies/$$version; \
	    mvn -q -B -f tests/serve/proxy/pom.xml dependency:copy-dependencies -Dversion.rocketmq=$$version \
	        -DoutputDirectory=$$jars || exit 1; \
	    $(PY) tests/serve/proxy/ask_proxy.py $$jars $(if $(RECORD),--record) || exit 1; \
	done

# Needs Java and Maven, Node.js and npm, Go, cargo, which fetch the clients into .venv; some 10 minutes and more. With
# AGAINST, the same programs run at RocketMQ's name server, broker and proxy of this folder, and differences are printed.
clients: $(VENV)/.all
	$(PY) tests/serve/matrix/run.py $(VENV)/clients $(if $(ONLY),--only $(ONLY)) $(if $(AGAINST),--against $(AGAINST))

# Needs Java and Maven, which fetches RocketMQ (about 90 MB) once. Four Java processes of at most 400 MB each.
cluster-demo: $(VENV)/.all
	@ulimit -c 0; $(PY) tests/cluster/demo.py $(VENV)/cluster-demo $(if $(RELEASE),--version $(RELEASE))

# Every release, geometry and role; CI runs a part of it. One test at a time: each has up to five Java processes.
cluster: $(VENV)/.all
	ulimit -c 0; $(PYTEST) -n0 --full tests/cluster $(PYTEST_ARGS)

CLIENTS ?= 200
soak-serve: MINUTES ?= 30
soak-serve: $(VENV)/.all
	ulimit -c 0; $(PY) tests/serve/soak/run.py --minutes $(MINUTES) --clients $(CLIENTS)

# Not part of CI: some hours, of which the run of the quick tests under coverage takes the first half. One that was
# stopped goes on where it was; what it needs and finds is in .mutants.
MUTANTS ?= 500
mutants: $(VENV)/.mutants
	$(PY) tests/mutants/run.py --count $(MUTANTS) $(if $(SEED),--seed $(SEED))

# Not part of CI: an hour and more. TESTS="tests/engine/test_life_fork.py …" runs these; LOAD_ARGS=--one-core all on one core;
# LOAD_ARGS="--stops 2" stops up to two of the processes at a time for seconds.
ROUNDS ?= 20
PROCESSES ?= 40
load-test: $(VENV)/.all
	ulimit -c 0; $(PY) tests/load/run.py --rounds $(ROUNDS) --processes $(PROCESSES) $(LOAD_ARGS) $(TESTS)

# mypy knows the root as `flightlog` through this link. It is not in git: it makes a recursive grep loop.
.dev/flightlog:
	@mkdir -p .dev && ln -sfn .. $@

check: $(VENV)/.all .dev/flightlog
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

$(VENV)/.docs: $(VENV)/.core
	@$(PIP) install -q 'flightlog[docs]'
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict

bench: $(VENV)/.all
	$(PY) -m flightlog bench

# ARGS="--help" tells what each takes.
readers delay messaging: $(VENV)/.all
	$(PY) benches/run.py $@ $(ARGS)

targets: $(VENV)/.all
	$(PY) benches/run.py targets $(if $(ROCKETMQ),--rocketmq $(ROCKETMQ)) $(if $(ONLY),--only $(ONLY)) $(TARGETS_ARGS)

$(VENV)/.fuzz: $(VENV)/.core
	@$(PIP) install -q 'flightlog[fuzz]'
	@touch $@

# SECONDS are those of all targets together; FUZZ="walk crc" names some of them. What was found stays in .fuzz/found.
SECONDS ?= 600
JOBS ?= 1
fuzz: $(VENV)/.all $(VENV)/.fuzz
	ulimit -c 0; $(PY) tests/fuzz/run.py --seconds $(SECONDS) --jobs $(JOBS) $(FUZZ)

FOLDER ?= .large-store
GIB ?= 10
large-store: $(VENV)/.all
	@mkdir -p $(FOLDER)
	$(PY) benches/run.py large --size $(GIB) --folder $(FOLDER)

# Power cuts and full disks need root. SEED=7 repeats a run; CUTS=1000000 simulates so many power cuts behind it.
CUTS ?= 0
soak: MINUTES ?= 60
soak: $(VENV)/.all
	ulimit -c 0; $(PY) tests/soak/run.py --minutes $(MINUTES) --cuts $(CUTS) $(if $(SEED),--seed $(SEED))

$(VENV)/.wheels: $(VENV)/.core
	@$(PIP) install -q 'flightlog[wheels]'
	@touch $@

# One wheel for each kind of processor, all made here: zig's C compiler has the headers and symbols of every glibc and
# makes code for others. 2.17 is manylinux2014's. Where the kernel did not compile, the wheel has another name, and
# auditwheel is told of a file that is not there.
GLIBC := 2.17
DIST ?= dist
wheels: $(VENV)/.wheels
	@for machine in x86_64 aarch64; do \
	    compiler="$(CURDIR)/$(PY) -m ziglang cc -target $$machine-linux-gnu.$(GLIBC)"; \
	    rm -rf build && CC="$$compiler" LDSHARED="$$compiler -shared -s" _PYTHON_HOST_PLATFORM=linux-$$machine \
	        $(PY) -m build --no-isolation --wheel --outdir $(DIST) \
	        --config-setting=--build-option=--plat-name=manylinux_$(subst .,_,$(GLIBC))_$$machine . >$(VENV)/wheels.log 2>&1 \
	        || { cat $(VENV)/wheels.log >&2; exit 1; }; \
	    $(PY) -m auditwheel show $(DIST)/flightlog-*-cp311-abi3-manylinux_*_$$machine.whl || exit 1; \
	done

clean:
	rm -rf $(VENV) .dev .coverage .mutants .load .fuzz/build build dist site flightlog.egg-info .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
	rm -f store/native/*.so
