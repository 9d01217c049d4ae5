// Package crc32c computes the checksum of objects, CRC-32C (Castagnoli), either alone or while it
// copies them.
//
// Kernels in assembly copy and compute the checksum in one pass. On amd64 two of them fold by carry-less
// multiplication, with registers of 512 and 256 bits (see fold_amd64.go), and two weave several
// checksums (see weave.go), as does the one for arm64. The first use of the package measures those that
// the processor can run and takes the fastest; Kernel names it. Elsewhere hash/crc32 computes the
// checksum, and a copy goes chunk by chunk, so that each is still in the cache for its checksum. All
// give the same results.
package crc32c
