# What the toolchain files of Linux boards share. They set `triple`, the prefix of Debian's cross compiler, and `emulator`,
# the processor in the name of qemu.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_CXX_COMPILER ${triple}-g++)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
# Static programs run under qemu-user without a root file system of the board.
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
find_program(QEMU NAMES qemu-${emulator}-static qemu-${emulator})
if(QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QEMU})
endif()
