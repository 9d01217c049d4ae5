// Package ranked is what exact eviction policies have in common: everything but the order.
//
// New turns an Order into an evict.Policy that keeps every sentence of that contract: the
// three states of an object, verdicts that come late, sizes that add up beyond 64 bits. An
// Order says where a new object goes, what an access changes, and who is next; it works on
// a Set, which holds the objects as flat entries in pages of memory, linked into lists by
// index. Nothing in it is a pointer to an object, so that millions of them cost the garbage
// collector nothing. Serving a stable number of objects allocates nothing.
//
// A Set is of use by itself too, for what a policy remembers beyond the objects it ranks.
//
// The package is for the authors of plugins. It imports the standard library and the
// contract only.
package ranked
