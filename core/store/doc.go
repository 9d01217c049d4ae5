// Package store is the client side of the pool: put, get and their batch forms over the
// transfer engine, and the node that contributes memory.
package store
