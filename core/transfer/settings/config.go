// Package settings holds the configuration of the transfer engine.
package settings

import (
	"time"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Config of an Engine. DefaultConfig has the defaults; a zero field is refused where its comment
// gives zero no meaning.
type Config struct {
	// SliceSize is the most bytes of a request that one operation carries.
	SliceSize int
	// Window bounds the bytes in flight on one path.
	Window int64
	// Timeout bounds a request that has no deadline of its own. 0: it may go on as long as bytes
	// move, at more than 8 KiB a second on average.
	Timeout time.Duration
	// SliceTimeout is how long a path may move nothing before the slices that it has in flight are
	// given up, and its peer counts as one that does not answer. A transport that does not tell a
	// slow path from a silent one (see Carrier.Stalls) gets as long for each slice, and what its
	// rail is expected to take.
	SliceTimeout time.Duration
	// Haste is how long a hasty read waits until there is a connection to the peer, or space on the
	// path, while nothing comes from it.
	Haste time.Duration
	// Retries bounds the retries of one slice, over all rails, transports and lookups: 1 to 127.
	Retries int
	// ConnectTimeout bounds looking a peer up and dialling it.
	ConnectTimeout time.Duration
	// CoolDown is how long a peer that failed is backed off; it doubles with every further failure
	// up to MaxCoolDown.
	CoolDown    time.Duration
	MaxCoolDown time.Duration
	// MaxPeers bounds the peers with open paths; the engine drops the one that was unused for
	// longest.
	MaxPeers int
	// RailErrors within RailWindow pause a rail for RailPause, which doubles with every pause that
	// did not help up to MaxRailPause. A path without rails counts as one.
	RailErrors   int
	RailWindow   time.Duration
	RailPause    time.Duration
	MaxRailPause time.Duration
	// PeerAffinity says which devices of peers go with which of this machine; nil pairs them by
	// name and then by order. Others are used only when none of these is in order.
	PeerAffinity map[string][]string
	// NoCache asks the directory for the peer with every call instead of using the last answer. For
	// debugging: it costs a round trip each.
	NoCache bool
	// RefreshInterval is how often the descriptors of known peers are fetched anew; 0 for only when
	// they turn out to be old.
	RefreshInterval time.Duration
	// MaxNotifications bounds the notifications that arrived and were not taken yet.
	MaxNotifications int
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		SliceSize:        1 << 20,
		Window:           64 << 20,
		SliceTimeout:     5 * time.Second,
		Haste:            time.Second,
		Retries:          9,
		ConnectTimeout:   5 * time.Second,
		CoolDown:         200 * time.Millisecond,
		MaxCoolDown:      5 * time.Second,
		MaxPeers:         4096,
		RailErrors:       5,
		RailWindow:       5 * time.Second,
		RailPause:        time.Second,
		MaxRailPause:     30 * time.Second,
		MaxNotifications: 4096,
	}
}

// Validate reports the first setting that cannot work.
func (c Config) Validate() error {
	bad := func(name string, got any, want string) error {
		return errs.New(errs.InvalidParams, "transfer: configuration", "%s is %v, must be %s", name, got, want)
	}
	switch {
	case c.SliceSize < 4<<10:
		return bad("slice size", c.SliceSize, "at least 4096 bytes")
	case c.Window < int64(c.SliceSize):
		return bad("window", c.Window, "at least the slice size")
	case c.Timeout < 0:
		return bad("timeout", c.Timeout, "0 or above")
	case c.SliceTimeout <= 0:
		return bad("slice timeout", c.SliceTimeout, "above 0")
	case c.ConnectTimeout <= 0:
		return bad("connect timeout", c.ConnectTimeout, "above 0")
	case c.CoolDown <= 0 || c.MaxCoolDown < c.CoolDown:
		return bad("cool-down", c.CoolDown, "above 0 and at most its maximum")
	case c.MaxPeers < 1:
		return bad("number of peers", c.MaxPeers, "at least 1")
	case c.Haste <= 0:
		return bad("haste", c.Haste, "above 0")
	case c.Retries < 1 || c.Retries > 127:
		return bad("number of retries", c.Retries, "from 1 to 127")
	case c.RailErrors < 1 || c.RailErrors > 1024:
		return bad("number of errors of a rail", c.RailErrors, "from 1 to 1024")
	case c.RailWindow <= 0:
		return bad("window of a rail's errors", c.RailWindow, "above 0")
	case c.RailPause <= 0 || c.MaxRailPause < c.RailPause:
		return bad("pause of a rail", c.RailPause, "above 0 and at most its maximum")
	case c.RefreshInterval < 0:
		return bad("refresh interval", c.RefreshInterval, "0 or above")
	case c.MaxNotifications < 1:
		return bad("number of notifications", c.MaxNotifications, "at least 1")
	}
	return nil
}
