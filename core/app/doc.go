// Package app composes the roles of a pool (master, metadata server, store node, client) and what
// programs open in their own process, from the modules that the packages of the core offer in their
// module.go.
package app
