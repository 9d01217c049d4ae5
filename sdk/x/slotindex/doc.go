// Package slotindex finds numbered entries by a hash of their keys, at 4.7 to 7 bytes an
// entry.
//
// Who holds millions of entries keeps them in flat arrays and knows each by its number. An
// Index leads from a key to that number. It holds the numbers only: to compare keys, and to
// hash them again when it grows, it asks the holder. A slot of 32 bits has room for the
// number and, above it, for as many bits of the hash as are left, so that the holder is
// seldom asked in vain: one comparison in 64 of a lookup at 16 million entries.
//
// Slots lie in buckets of one cache line. Nine lookups in ten touch one of them. Adding and
// removing at a steady number of entries never rebuilds anything and allocates nothing.
//
// Growing an Index takes time linear in its entries. A Split is many of them that grow on
// their own, which keeps that time short.
//
// The package is for the authors of plugins and for the core. It imports the standard
// library only.
package slotindex
