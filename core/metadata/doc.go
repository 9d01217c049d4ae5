// Package metadata is where nodes find each other: segment descriptors by name.
//
// The package itself holds what all directories share, in the forms that upstream's nodes
// read and write: descriptors and addresses as JSON, the names of keys, the names of
// nodes. The directories are in the subpackages; open picks one by connection string.
package metadata
