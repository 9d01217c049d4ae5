// Package access says who makes a call and whether that process may make it.
//
// A Peer is made once for a connection and reaches the calls in their contexts: With and Of.
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"sync/atomic"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/callctx"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// Peer is the process at the other end of a connection.
type Peer struct {
	// Identity is who it is, by its certificate or the token of its request.
	Identity security.Identity
	// Door is what it connected to, empty for a door without an identity.
	Door config.Door
	// Remote is its address, for the log.
	Remote string

	known   bool
	owner   uint64
	tenant  model.Tenant
	allowed set
	last    [8]atomic.Pointer[tally] // of the audit
}

// NewPeer returns a process with a verified identity.
func NewPeer(id security.Identity, door config.Door, remote net.Addr) *Peer {
	return &Peer{Identity: id, Door: door, Remote: remote.String(), known: true, owner: Owner(id), tenant: tenantOf(id), allowed: allowed(id)}
}

// Anonymous returns a process that has shown neither a certificate nor a token at a door that demands one. It may make no call.
func Anonymous(door config.Door, remote net.Addr) *Peer {
	return &Peer{Door: door, Remote: remote.String(), known: true}
}

// Anonymous reports whether the peer is one that Anonymous made.
func (p *Peer) Anonymous() bool { return p != nil && p.known && p.Identity.Role == "" }

// ByToken returns a context for a call of the same process with the identity of a token.
func ByToken(ctx context.Context, id security.Identity, door config.Door) context.Context {
	p := &Peer{Identity: id, Door: door, known: true, owner: Owner(id), tenant: tenantOf(id), allowed: allowed(id)}
	if at := at(ctx); at != nil {
		p.Remote = at.Remote
	}
	return With(ctx, p)
}

// tenantOf returns the tenant whose objects an identity may use, empty for all.
func tenantOf(id security.Identity) model.Tenant {
	if id.Role == security.RoleClient || id.Role == security.RoleReader {
		return cmp.Or(id.Tenant, model.DefaultTenant)
	}
	return id.Tenant
}

// Owner returns the first half, Hi, of the client ids of a process with an identity.
func Owner(id security.Identity) uint64 {
	sum := sha256.Sum256([]byte(id.Trust + "\x00" + string(id.Role) + "\x00" + id.Tenant + "\x00" + id.Name))
	return binary.BigEndian.Uint64(sum[:])
}

// Same reports whether two peers have the same identity.
func (p *Peer) Same(as *Peer) bool { return p.Identity == as.Identity }

// Administers reports whether the peer may change what belongs to others.
func (p *Peer) Administers() bool {
	return p.Identity.Role == security.RoleMaster || p.Identity.Role == security.RoleOperator && p.tenant == ""
}

// AuthType implements credentials.AuthInfo.
func (p *Peer) AuthType() string { return "mooncake" }

type key struct{}

// With returns a context for the calls of a peer.
func With(ctx context.Context, p *Peer) context.Context { return context.WithValue(ctx, key{}, p) }

// Of returns the identified peer whose call a context is of. It returns nil where there is none: for a
// call within the process or over a Unix socket, at a plaintext door, and with security.mode tls,
// where clients have no certificates, without a token.
func Of(ctx context.Context) *Peer {
	if p := at(ctx); p != nil && p.known {
		return p
	}
	return nil
}

// at returns the peer of a context, identified or not, nil for a call within the process.
func at(ctx context.Context) *Peer {
	var found any
	if c, ok := ctx.(*callctx.Call); ok {
		found = c.Inherited(key{}) // Without a derived context.
	} else {
		found = ctx.Value(key{})
	}
	if p, ok := found.(*Peer); ok {
		return p
	}
	if g, ok := peer.FromContext(ctx); ok {
		p, _ := g.AuthInfo.(*Peer) //nolint:errcheck // Another one is of another server.
		return p
	}
	return nil
}

// PeerOf returns the peer of an accepted connection: what a door noted about it, or only its address.
func PeerOf(conn net.Conn) *Peer {
	for c := conn; c != nil; {
		if w, ok := c.(*security.Wire); ok {
			if p, ok := w.Noted().(*Peer); ok {
				return p
			}
			break
		}
		below, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		c = below.NetConn()
	}
	p := &Peer{}
	if a := conn.RemoteAddr(); a != nil {
		p.Remote = a.String()
	}
	return p
}

// Credentials returns what a gRPC server learns its peers by. The handshake of a connection is over
// before gRPC sees it, see package doors.
func Credentials() credentials.TransportCredentials { return accepted{} }

type accepted struct {
	credentials.TransportCredentials
}

// ServerHandshake implements credentials.TransportCredentials.
func (accepted) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return conn, PeerOf(conn), nil
}

// Info implements credentials.TransportCredentials.
func (accepted) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "mooncake"}
}

// Clone implements credentials.TransportCredentials.
func (a accepted) Clone() credentials.TransportCredentials { return a }
