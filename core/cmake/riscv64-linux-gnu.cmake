# Cross-compiles for RISC-V boards (rv64gc) with the Debian package g++-riscv64-linux-gnu; the tests run under qemu-user:
#   cmake -S . -B build/riscv64 -DCMAKE_TOOLCHAIN_FILE=core/cmake/riscv64-linux-gnu.cmake
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(triple riscv64-linux-gnu)
set(emulator riscv64)
include(${CMAKE_CURRENT_LIST_DIR}/linux-board.cmake)
