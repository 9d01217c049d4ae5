// Package crc32c computes the checksum of objects: CRC-32C (Castagnoli), while memory is
// copied or by itself.
//
// On amd64 with AVX-512 and VPCLMULQDQ a kernel folds 256 bytes at a time by carry-less
// multiplication; see fold.go. Elsewhere hash/crc32 does it, and a copy goes piece by piece,
// each summed up while it is in cache. Both give the same sums.
package crc32c
