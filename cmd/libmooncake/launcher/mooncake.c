/*
 * The program mooncake of a package that has libmooncake.so beside it. All of it is in the
 * library, which the linker finds by the folder of this file, so that the package has the
 * core once.
 */
#include "mooncake_native.h"

int main(int argc, char **argv) { return mck_main(argc, argv); }
