# Cross-compiles for 32-bit ARM boards with the Debian package g++-arm-linux-gnueabihf; the tests run under qemu-user:
#   cmake -S . -B build/armhf -DCMAKE_TOOLCHAIN_FILE=core/cmake/arm-linux-gnueabihf.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(CMAKE_C_COMPILER arm-linux-gnueabihf-gcc)
set(CMAKE_CXX_COMPILER arm-linux-gnueabihf-g++)
# GCC 7 changed how some arguments are passed; all objects here are of one compiler.
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Static programs run under qemu-user without an ARM root file system.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
find_program(QEMU NAMES qemu-arm-static qemu-arm)
if(QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU})
endif()
