// Package workload makes the load of a demo: conversations that share system prompts and
// grow turn by turn. A load is a function of its configuration alone, so that several
// processes can make the same one and each replay its share.
package workload
