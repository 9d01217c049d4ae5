// Package storetest is the contract of metadata.Store as tests. Each implementation runs it
// against a real service.
package storetest
