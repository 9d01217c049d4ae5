package open

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/internal/doors"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
)

// cleanTimeout bounds the removal of the keys of the nodes that fell silent at one moment.
const cleanTimeout = 5 * time.Second

// Cleaner removes the metadata of dead nodes from the metadata service. A nil Cleaner removes
// nothing.
type Cleaner struct {
	store metadata.Store // nil without a service: nodes ask each other
	keys  metadata.Keys
	log   *slog.Logger
	idle  func()
}

// NewCleaner makes a Cleaner of the embedded service or, if that is nil, of the service that the
// nodes use.
func NewCleaner(embedded *memory.Store, s config.Store, d *doors.Doors, log *slog.Logger) (*Cleaner, error) {
	c := &Cleaner{keys: metadata.Keys{Cluster: s.MetadataClusterID}, log: log, idle: func() {}}
	switch {
	case embedded != nil:
		c.store = embedded
	case s.MetadataServer == P2PHandshake:
		log.Warn("nothing is removed when a node falls silent: with P2PHANDSHAKE there is no metadata service", "setting", "enable_metadata_cleanup_on_timeout")
	default:
		var err error
		if c.store, c.idle, err = Store(s.MetadataServer, FromConfig(s, "", d, log)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Remove drops the keys of dead nodes, by the names of their segments. The master calls it from a
// background loop. If the service does not answer, the keys stay until the next process of that
// name replaces them.
func (c *Cleaner) Remove(ctx context.Context, names []string) {
	if c == nil || c.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, cleanTimeout)
	defer cancel()
	removed := 0
	for _, name := range names {
		for _, key := range []string{c.keys.Segment(name), c.keys.RPCMeta(name)} {
			switch err := c.store.Delete(ctx, key); {
			case err == nil:
				removed++
			case !errors.Is(err, metadata.ErrNotFound):
				c.log.Warn("metadata of silent nodes stays: the metadata service does not take it back", "key", key, "segments", len(names), "error", err)
				return
			}
		}
	}
	c.log.Info("metadata of silent nodes removed", "segments", len(names), "keys", removed)
}

// Close closes the connections to the service, after the master has stopped.
func (c *Cleaner) Close() { c.idle() }
