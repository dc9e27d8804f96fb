# Cross-compiles for 32-bit ARM boards with the Debian package g++-arm-linux-gnueabihf; the tests run under qemu-user:
#   cmake -S . -B build/armhf -DCMAKE_TOOLCHAIN_FILE=core/cmake/arm-linux-gnueabihf.cmake
set(CMAKE_SYSTEM_PROCESSOR armv7l)
# GCC 7 changed how some arguments are passed; all objects here are of one compiler.
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)
set(triple arm-linux-gnueabihf)
set(emulator arm)
include(${CMAKE_CURRENT_LIST_DIR}/linux-board.cmake)
