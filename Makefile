# Every target sets up what it needs; a second call starts at once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV_READY := $(VENV)/.ready-dev
CORE := CMakeLists.txt $(wildcard core/include/* core/src/* core/src/*/*)
INPUTS := pyproject.toml constraints.txt $(CORE)
# Bytecode is left to the first import (or to DEV_READY): compiling all of PyTorch takes longer than the rest.
# Some images forbid bytecode; then every process of the tests would compile every module again.
unexport PYTHONDONTWRITEBYTECODE
PIP_INSTALL := PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install --quiet --no-compile

.PHONY: install demo test test-all lint core-test sanitize sanitize-all long learning \
  instructions mutants aarch64 armhf riscv64 cortex-m7 wasm browser site fuzz clean

install: $(READY)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; name one with PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(READY): $(INPUTS) | $(BIN)/python
	$(PIP_INSTALL) --editable '.[train,plot,tensorboard]'
	@touch $@

$(DEV_READY): $(READY)
	$(PIP_INSTALL) --editable '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@touch $@

demo: $(READY)
	$(BIN)/bipointnet demo

lint: $(DEV_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

PYTEST = $(BIN)/pytest -n 2 --dist worksteal

# What every change must pass; test-all is what takes longer. `.ci/run` runs both.
test: $(DEV_READY)
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target lint core-test
	$(PYTEST) -m 'not learning and not long and not instructions and not cortex_m7 and not wasm and not browser'

test-all: $(DEV_READY)
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target aarch64 armhf riscv64 fuzz sanitize-all site
	$(MAKE) --no-print-directory wasm browser long learning instructions cortex-m7 mutants

# 10,000 damaged files per format of clouds; `make test` reads 300. About 5 minutes.
mutants: $(DEV_READY)
	BIPOINTNET_MUTANTS=10000 $(PYTEST) tests/data/test_mutants.py

# Tests of many seconds that a change rarely breaks alone.
long: $(DEV_READY)
	$(PYTEST) -m 'long and not learning'

# Speed without a clock.
instructions: $(DEV_READY)
ifeq ($(shell command -v valgrind),)
	@echo "instructions: SKIPPED, valgrind is not installed"
else
	$(PYTEST) -m instructions
endif

# Tests that train must not depend on the rounding of one CPU.
learning: $(DEV_READY)
	$(PYTEST) -m learning
	ATEN_CPU_CAPABILITY=default $(PYTEST) -m learning
	ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 $(PYTEST) -m learning

# The C++ tests: as they are, under sanitizers, on ARM and RISC-V under qemu, and without threads: as WebAssembly and on a
# Cortex-M7. A target without its tools prints SKIPPED.
CMAKE = $(BIN)/cmake
CTEST = $(BIN)/ctest --output-on-failure -j 2 --test-dir
BUILD_TESTS = -DBIPOINTNET_TESTS=ON && $(CMAKE) --build

core-test: $(DEV_READY)
	$(CMAKE) -S . -B build/core $(BUILD_TESTS) build/core -j 2 > build/core.log || (cat build/core.log; exit 1)
	$(CTEST) build/core

SANITIZE = -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-g1 -O1 -fsanitize=address,undefined -fno-sanitize-recover=all"
sanitize: $(DEV_READY)
	$(CMAKE) -S . -B build/sanitize $(SANITIZE) \
	  $(BUILD_TESTS) build/sanitize --target core_tests -j 2 > build/sanitize.log || (cat build/sanitize.log; exit 1)
	$(CTEST) build/sanitize

# The same, with the checks for undefined behavior in the kernels of every instruction set: minutes to compile.
sanitize-all: $(DEV_READY)
	$(CMAKE) -S . -B build/sanitize-all $(SANITIZE) -DBIPOINTNET_SANITIZE_KERNELS=ON \
	  $(BUILD_TESTS) build/sanitize-all --target core_tests -j 2 > build/sanitize-all.log || (cat build/sanitize-all.log; exit 1)
	BIPOINTNET_SLOW=1 $(CTEST) build/sanitize-all

# $(1): target, $(2): compiler prefix, $(3): names of the emulator
define board
$(1): $(DEV_READY)
ifeq ($$(and $$(shell command -v $(2)-g++),$$(shell command -v $(3))),)
	@echo "$(1): SKIPPED, g++-$(2) and qemu-user-static are not both installed"
else
	$$(CMAKE) -S . -B build/$(1) -DCMAKE_TOOLCHAIN_FILE=core/cmake/$(2).cmake \
	  $$(BUILD_TESTS) build/$(1) -j 2 > build/$(1).log || (cat build/$(1).log; exit 1)
	BIPOINTNET_SLOW=1 $$(CTEST) build/$(1)
endif
endef
$(eval $(call board,aarch64,aarch64-linux-gnu,qemu-aarch64-static qemu-aarch64))
$(eval $(call board,armhf,arm-linux-gnueabihf,qemu-arm-static qemu-arm))
$(eval $(call board,riscv64,riscv64-linux-gnu,qemu-riscv64-static qemu-riscv64))

# The module of the JavaScript package, then the C++ tests and the tests of the package under Node.js.
wasm: $(DEV_READY)
ifeq ($(and $(shell command -v em++),$(shell command -v node)),)
	@echo "wasm: SKIPPED, emscripten and Node.js are not both installed"
else
	(emcmake $(CMAKE) -S . -B build/wasm -DBIPOINTNET_NO_THREADS=ON -DBIPOINTNET_TESTS=ON && \
	  $(CMAKE) --build build/wasm -j 2 --target bipointnet-wasm core_tests) > build/wasm.log 2>&1 || (cat build/wasm.log; exit 1)
	cp build/wasm/bipointnet.wasm src/bipointnet/web/package/
	$(CTEST) build/wasm
	$(PYTEST) -m wasm
endif

# The page in a real browser.
CHROMIUM := $(shell command -v chromium || command -v google-chrome)
browser: wasm
ifeq ($(CHROMIUM),)
	@echo "browser: SKIPPED, Chromium is not installed"
else
	CHROMIUM=$(CHROMIUM) $(BIN)/pytest -m browser
endif

# The documentation: build/site. A warning is an error (but not with --quiet). Its tests are among `long` and `browser`.
site: $(DEV_READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "build/site/index.html; with a search: $(BIN)/python -m http.server --directory build/site"

# A microcontroller without an operating system: the C++ tests, the same bits as here, and the flash and RAM that it takes.
cortex-m7: $(DEV_READY)
ifeq ($(and $(shell command -v arm-none-eabi-g++),$(shell command -v qemu-system-arm)),)
	@echo "cortex-m7: SKIPPED, gcc-arm-none-eabi and qemu-system-arm are not both installed"
else
	$(CMAKE) -S . -B build/cortex-m7-tests -DCMAKE_TOOLCHAIN_FILE=core/cmake/cortex-m7.cmake -DBIPOINTNET_NO_THREADS=ON \
	  $(BUILD_TESTS) build/cortex-m7-tests --target core_tests -j 2 > build/cortex-m7-tests.log \
	  || (cat build/cortex-m7-tests.log; exit 1)
	$(CTEST) build/cortex-m7-tests --timeout 1200
	$(BIN)/pytest -m cortex_m7
	$(BIN)/python benchmarks/cortex_m7.py
endif

# Every core/fuzz/fuzz_NAME.cpp is a target; they share the seconds.
FUZZ_SECONDS ?= 30
FUZZ_TARGETS = $(patsubst core/fuzz/%.cpp,%,$(wildcard core/fuzz/fuzz_*.cpp))
fuzz: $(DEV_READY)
ifeq ($(shell command -v clang++),)
	@echo "fuzz: SKIPPED, clang++ is not installed"
else
	$(CMAKE) -S . -B build/fuzz -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DBIPOINTNET_FUZZ=ON \
	  && $(CMAKE) --build build/fuzz -j 2 --target make_corpus $(FUZZ_TARGETS) > build/fuzz.log || (cat build/fuzz.log; exit 1)
	@for target in $(FUZZ_TARGETS); do \
	  mkdir -p build/fuzz/corpus/$$target && build/fuzz/make_corpus $$target build/fuzz/corpus/$$target || exit 1; \
	  build/fuzz/$$target -max_total_time=$$(($(FUZZ_SECONDS) / $(words $(FUZZ_TARGETS)))) -max_len=4096 -timeout=60 \
	    -rss_limit_mb=2048 -artifact_prefix=build/fuzz/$$target- build/fuzz/corpus/$$target \
	    2> build/fuzz/$$target.log || { tail -50 build/fuzz/$$target.log; exit 1; }; \
	  echo "$$target: $$(tail -1 build/fuzz/$$target.log)"; \
	done
endif

clean:
	rm -rf $(VENV) build
