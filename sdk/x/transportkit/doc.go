// Package transportkit holds what transports share beside their paths (pathkit) and regions
// (regionkit): the options of the address to listen on, the accept loop, starting and stopping
// once, and the reasons for which a peer refuses a request.
package transportkit
