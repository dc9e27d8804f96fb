# Cross-compiles for a Cortex-M7 without an operating system, with the Debian packages gcc-arm-none-eabi and
# libstdc++-arm-none-eabi-newlib; examples/cortex-m7 shows how. The tests run under qemu:
#   cmake -S . -B build/cortex-m7-tests -DCMAKE_TOOLCHAIN_FILE=core/cmake/cortex-m7.cmake -DBIPOINTNET_NO_THREADS=ON -DBIPOINTNET_TESTS=ON
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR armv7e-m)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)
# A program needs a linker script, which the checks of CMake do not have.
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
# GCC 7 changed how some arguments are passed; all objects here are of one compiler.
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m7 -mthumb -mfpu=fpv5-d16 -mfloat-abi=hard -ffunction-sections -fdata-sections")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT} -Wno-psabi")
find_program(QEMU qemu-system-arm)
if(QEMU)
  # Semihosting is output and exit code.
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU} -M mps2-an500 -nographic -monitor none -serial none
    -chardev stdio,id=out -semihosting-config enable=on,chardev=out -kernel)
endif()
