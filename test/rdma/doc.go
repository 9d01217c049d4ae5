// Package rdma tests the program on RDMA devices: real verbs, real processes, devices that
// go down, peers that are killed. `make test-rdma` builds it and runs it in the VM of
// test/rdma-vm, where the devices are software; elsewhere its tests are skipped.
//
// One test does everything in order, so that the first step that fails says most: a
// transport that moves wrong bytes is not worth measuring. The last step measures beside
// perftest on the same devices and writes report.md and report.json.
package rdma
