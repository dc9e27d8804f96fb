# Cross-compiles for 64-bit ARM boards with the Debian package g++-aarch64-linux-gnu; the tests run under qemu-user:
#   cmake -S . -B build/aarch64 -DCMAKE_TOOLCHAIN_FILE=core/cmake/aarch64-linux-gnu.cmake
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Static programs run under qemu-user without an ARM root file system.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
find_program(QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU})
endif()
