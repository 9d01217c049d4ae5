// Package topology says what a machine has and what is near to what: NUMA nodes, RDMA
// devices, network interfaces and GPUs, read from sysfs.
//
// Discover reads a machine through an fs.FS, which is the machine's own root or a
// recording of another (package recording). Choose then applies what the configuration says
// about devices, and gives the devices to use with their topology matrix. Package show
// prints both.
//
// A machine is described as far as it can be read. What is missing is left out, what makes
// no sense is left out with a warning; neither is an error. Files, folders and their number
// are bounded, so that a tree from a stranger can be looked at.
package topology
