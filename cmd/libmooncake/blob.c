#include "cgo.h"

#include <stdlib.h>

/* In C, so that a caller which holds a lock, as the GIL, never waits for the Go runtime. */
void mck_blob_free(mck_blob b) { free(b.data); }
