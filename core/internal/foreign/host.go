package foreign

import "net"

// HostOf returns the address of a peer without its port.
func HostOf(remote net.Addr) string {
	host, _, err := net.SplitHostPort(remote.String())
	if err != nil {
		return remote.String()
	}
	return host
}
