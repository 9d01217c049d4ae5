// Package central is the directory on a metadata service: each node keeps two keys there,
// its descriptor and the address of its handshake daemon, under its name.
package central
