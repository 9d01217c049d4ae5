package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/open"
)

// cleanTimeout bounds the removal of the keys of the nodes that fell silent at one moment.
const cleanTimeout = 5 * time.Second

// cleaner takes the metadata of dead nodes out of the metadata service.
type cleaner struct {
	store metadata.Store // nil where nodes ask each other and nothing is published
	keys  metadata.Keys
	log   *slog.Logger
	idle  func()
}

// newCleaner cleans the embedded service where there is one, else the one that the nodes
// use, which is told by its address.
func newCleaner(embedded *memory.Store, s config.Store, log *slog.Logger) (*cleaner, error) {
	c := &cleaner{keys: metadata.Keys{Cluster: s.MetadataClusterID}, log: log, idle: func() {}}
	switch {
	case embedded != nil:
		c.store = embedded
	case s.MetadataServer == open.P2PHandshake:
		log.Warn("nothing is removed when a node falls silent: with P2PHANDSHAKE there is no metadata service", "setting", "enable_metadata_cleanup_on_timeout")
	default:
		var err error
		if c.store, c.idle, err = open.Store(s.MetadataServer, directoryOptions(s, "", log)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// remove drops the keys of dead nodes, by the names of their segments. The master calls it
// from a background loop. When the service does not answer the keys stay, as they do where
// no master removes any: the next process of that name replaces them.
func (c *cleaner) remove(ctx context.Context, names []string) {
	if c.store == nil {
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

// close gives connections back, after the master has stopped.
func (c *cleaner) close(context.Context) error {
	c.idle()
	return nil
}
