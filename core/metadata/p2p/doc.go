// Package p2p is the handshake between nodes: a small TCP service on every node that
// answers with its descriptor, takes notifications, and sets connections up. With
// P2PHANDSHAKE it is the whole directory.
//
// A connection carries one frame each way: a length of 8 bytes, little-endian, that counts
// what follows; one byte of type; JSON. Releases before types send the JSON alone.
package p2p
