// Package worker replays a load against a pool the way an inference engine uses one, and
// measures. For each request:
//
//  1. look up the longest cached prefix;
//  2. read its pages, and compare every byte with the content of the block;
//  3. make the other pages and put them.
//
// A page that the lookup saw and the read does not give (evicted in between, its node
// died, its checksum did not match) ends the prefix there: it is a miss, and it is put
// again with what follows. A page that the read gave with other bytes is wrong; nothing
// else is.
//
// A worker holds Config.Window pages, whatever the length of a request. What it measures
// leaves as a stream of events on a pipe, see Serve and Decoder.
package worker
