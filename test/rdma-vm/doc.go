// Package rdmavm tests rdma-vm, the tool beside it, as its users call it. There is no Go
// code to import here.
package rdmavm
