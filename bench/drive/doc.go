// Package drive does pieces of work that are measured, in a process of its own: puts and gets of
// a client in Go, calls to a master, and copies of memory as their limit. driver.py, beside it,
// does the jobs of a store in Python, with any package that has mooncake.store.
//
// A driver reads one Job as JSON from each line of its standard input and answers with an Answer,
// or with {"error": "..."}. The first line that it writes is {"ready": true}.
package drive
