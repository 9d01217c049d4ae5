// Package crc32c computes the checksum of objects, CRC-32C (Castagnoli), either alone or while it
// copies them.
//
// On amd64 with AVX-512 and VPCLMULQDQ a kernel folds 256 bytes at a time by carry-less
// multiplication; see fold.go. Elsewhere hash/crc32 computes the checksum, and a copy goes chunk by
// chunk, so that each is still in the cache for its checksum. Both give the same results.
package crc32c
