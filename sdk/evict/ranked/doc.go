// Package ranked implements everything that exact eviction policies have in common, which is all
// but the order.
//
// New turns an Order into an evict.Policy that follows the whole contract, including the three
// states of an object, late verdicts, and sizes that add up beyond 64 bits. An Order decides where
// a new object goes, what an access changes, and which object is next. It works on a Set, which
// holds the objects as flat entries in pages of memory, linked into lists by index. A Set has no
// pointers to objects, so millions of them cost the garbage collector nothing. At a stable number
// of objects it does not allocate.
//
// A Set is also useful by itself, for what a policy remembers beyond the objects that it ranks.
//
// The package is for the authors of plugins. It imports the standard library and the
// contract only.
package ranked
