# `make book` and `make test` do all the set-up themselves; they need Python ≥ 3.11 and make.
PYTHON ?= python3
RUN = .venv/bin/python
READY = .venv/ready

help:  ## this list
	@sed -nE 's/^([a-z]+):[^#]*## /\1\t/p' Makefile | expand -t 10

book: $(READY)  ## check every chapter and claim, then build the site
	$(RUN) -m claimbook check
	$(RUN) -m claimbook site

pdf: $(READY)  ## print the site, as it is recorded, as one PDF; needs Chromium
	$(RUN) -m claimbook pdf

test: lint book  ## the same, then all tests: unit, property, peer, guard, rerun, break, browser
	$(RUN) -m pytest -n auto --dist loadgroup tests

# no plugin but xdist, no rewriting of asserts: both cost each worker seconds; -l shows the values
quick: lint  ## in half a minute: lint, and one case of each test that is not slow
	$(RUN) -m pytest --disable-plugin-autoload -p xdist.plugin -n auto --dist loadfile --assert=plain -l --one-of-each tests

lint: $(READY)  ## style of the code, and its types
	$(RUN) -m ruff check .
	$(RUN) -m isort -q --check .
	.venv/bin/pyrefly check

format: $(READY)  ## lay out the modules' code; a slow test checks that it is so
	$(RUN) -m isort -q .
	$(RUN) -m yapf -i -p -r spdlib claimbook

accept: $(READY)  ## run chapters and record their outputs: make accept [CH=06]
	$(RUN) -m claimbook accept $(CH)

breaks: $(READY)  ## record which claims catch which deliberate faults of spdlib
	$(RUN) -m claimbook check
	$(RUN) -m claimbook net

pins: $(READY)  ## compile requirements.txt anew from the extras, at the versions that it has where they still fit
	$(RUN) -m pip install -q uv
	$(RUN) -m uv pip compile -q pyproject.toml --extra book --extra tests --python-version 3.11 --no-annotate --custom-compile-command "make pins" -o requirements.txt

bench: $(READY)  ## speed beside that of peers, as ratios
	$(PYTHON) -m venv .venv/peers
	.venv/peers/bin/python -m pip install -q -r benchmarks/requirements.txt
	.venv/peers/bin/python benchmarks/run.py

clean:  ## remove what was built and the environment
	rm -rf _build build .venv .hypothesis spdlib.egg-info spdlib/*.so

.venv/installed: requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name it with make PYTHON=...")'
	$(PYTHON) -m venv .venv
	$(RUN) -m pip install -q -r requirements.txt
	touch .venv/installed

# installs both packages and builds the kernel, where there is a compiler
$(READY): .venv/installed setup.py spdlib/_fast.c
	$(RUN) -m pip install -q --no-deps --no-build-isolation -e .
	touch $(READY)

.PHONY: help book pdf test quick lint format accept breaks pins bench clean
