// Package tier keeps copies of objects on a storage tier, for the node that has the tier.
//
// A tier is a segment of the pool like memory: it has a ledger, which the master writes and which says what lies there. A
// Disk joins the ledger with the records of a tier plugin: a put of the ledger is a record, and a record whose put is gone
// from the ledger is forgotten before the node acknowledges that. So what is removed from the pool does not come back, and
// what lies on the tier survives the node, the master, or both.
//
// The ledger lies in a file beside the records. Where it is lost, it is made again from the records, which have all that
// readers need.
package tier
