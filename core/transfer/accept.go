package transfer

import (
	"context"
	"encoding/json"
	"strings"
)

// HandleConnection answers a request of a node of upstream to set up a connection; it is made for
// the handshake daemon. Both are JSON. NotSupported without a transport that takes such requests.
func (e *Engine) HandleConnection(ctx context.Context, request []byte) ([]byte, error) {
	return e.carriers.Accept(ctx, e.withAddress(ctx, request))
}

// withAddress adds the address of its device to a request that has none: nodes of upstream's releases
// up to 0.3.10 leave it to their descriptors. Whether the request is complete is for the transport to
// say.
func (e *Engine) withAddress(ctx context.Context, request []byte) []byte {
	var m map[string]json.RawMessage
	var path, gid string
	if json.Unmarshal(request, &m) != nil || json.Unmarshal(m["local_nic_path"], &path) != nil || json.Unmarshal(m["local_gid"], &gid) == nil && gid != "" {
		return request
	}
	at := strings.LastIndexByte(path, '@')
	if at < 0 {
		return request
	}
	d, err := e.dir.Lookup(ctx, path[:at])
	if err != nil {
		e.log.Warn("a node of upstream asks for a connection and does not say its address, and its descriptor cannot be had", "peer", path, "error", err)
		return request
	}
	for _, x := range d.Devices {
		if x.Name != path[at+1:] {
			continue
		}
		m["local_gid"], _ = json.Marshal(x.GID)
		m["local_lid"], _ = json.Marshal(x.LID)
		if whole, err := json.Marshal(m); err == nil {
			return whole
		}
	}
	return request
}
