# Cross-compiles for 64-bit ARM boards with the Debian package g++-aarch64-linux-gnu; the tests run under qemu-user:
#   cmake -S . -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=core/cmake/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triple aarch64-linux-gnu)
set(emulator aarch64)
include(${CMAKE_CURRENT_LIST_DIR}/linux-board.cmake)
