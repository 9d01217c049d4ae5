// Package quota says what each tenant of a pool may use, and keeps count of what it uses.
//
// A Policy is what the operator wrote: tenants and their quotas. A Ledger holds the policy
// in force and what every tenant's objects occupy; it is charged before memory is taken and
// refunded after it is given back, on every put, so it costs one map look-up and one atomic
// operation. A Keeper keeps the ledger and the file of the policy together.
//
// Where quotas add up to more than the pool has, each tenant gets the same share of its
// own. A tenant that was taken out of the policy keeps what it has, and writes no more,
// until its objects are gone.
//
// Scope gives every tenant a name space of its own in one table of keys.
package quota
