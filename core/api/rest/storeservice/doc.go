// Package storeservice is the HTTP face of a store node: put, get and remove objects, and
// mount and unmount memory, in the shapes of upstream's store service, by default on port
// 8080. routes is the table of everything.
//
// Every error is JSON: "error" has upstream's text where upstream has one, "detail" the
// reason for people, "error_code" the number of the store's error where there is one.
//
// Everything has a bound: a body 100 MiB, what the bodies and objects of all requests hold
// together Options.Memory, the pace of a client 256 KiB/s after 10 s, the wait for memory
// 5 s, a call 2 min.
package storeservice
