// Package prefix is the eviction policy evict/prefix, made for the pages of prompts: it
// learns from the requests which pages come back, and when, and evicts those of which it
// expects the fewest hits for the room they take.
//
// What happens to a use of an object:
//
//   - It joins the other pages of its request (request), which are told apart by which page
//     follows which. When the request is over, each page gets a class (classOf).
//   - Pages are ranked in cells, one for each class and bucket of ages (cells). They grow
//     older by whole lists, so that nothing is done for a single one.
//   - Some uses are watched as samples, whether their object is evicted or not (samples).
//     They show which part of the pages of a class comes back at which age (odds), and so
//     what the objects of each cell are worth. The victim is an object of the cell worth
//     least.
//   - How often an evicted object was used is remembered by its fingerprint (ghosts).
//
// The clock counts uses, and nothing is random: the same calls have the same victims. An
// event costs constant time but for the odds, which are computed anew every few hundred
// events, seldom in large caches. Serving a stable number of objects allocates nothing.
package prefix
