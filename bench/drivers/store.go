package drivers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/core/observe"
	"github.com/mooncake-go/mooncake/core/store"
	"github.com/mooncake-go/mooncake/sdk/plugin"
)

// Store is a client of the pool of a master that does jobs; it contributes segment bytes. Other
// settings come from the environment.
func Store(ctx context.Context, master string, segment int, in io.Reader, out io.Writer) (err error) {
	cfg, err := clientConfig(master, segment)
	if err != nil {
		return err
	}
	log, err := observe.NewLogger(os.Stderr, "warn", "text")
	if err != nil {
		return err
	}
	node, err := app.OpenNode(ctx, cfg, builtin.Plugins(), app.NodeOptions{Log: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close(ctx)) }()
	mem, err := newArea()
	if err != nil {
		return err
	}
	if err := node.Client.RegisterBuffer(ctx, mem, ""); err != nil {
		return err
	}
	err = serve(ctx, &storeWorker{client: node.Client, area: mem}, in, out)
	return errors.Join(err, node.Client.UnregisterBuffer(ctx, mem))
}

func clientConfig(master string, segment int) (config.Config, error) {
	fs := pflag.NewFlagSet("client", pflag.ContinueOnError)
	config.RegisterFlags(fs, config.RoleClient)
	for name, value := range map[string]string{
		"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "master_server_address": master, "protocol": "tcp",
		"global_segment_size": strconv.Itoa(segment), "local_buffer_size": "0",
	} {
		if err := fs.Set(name, value); err != nil {
			return config.Config{}, err
		}
	}
	defaults := map[plugin.ID]any{}
	for _, f := range builtin.Plugins() {
		defaults[f.Manifest().ID] = f.DefaultConfig()
	}
	loaded, err := config.Load(config.Options{Role: config.RoleClient, Flags: fs, Environ: os.Environ(), PluginDefaults: defaults})
	if err != nil {
		return config.Config{}, err
	}
	return loaded.Config, nil
}

// storeClient is what the jobs need of a client.
type storeClient interface {
	PutItems(ctx context.Context, items []store.Item, cfg model.ReplicateConfig) []store.PutResult
	BatchGetInto(ctx context.Context, keys []model.Key, dst [][]byte) []model.Result[int]
	BatchRemove(ctx context.Context, keys []model.Key, force bool) []error
}

type storeWorker struct {
	client storeClient
	area   area
	puts   int // makes keys of puts new each time
}

func (w *storeWorker) do(ctx context.Context, j Job) (Answer, error) {
	switch j.Do {
	case Prepare:
		return Answer{}, w.prepare(ctx, j)
	case Put:
		return w.put(ctx, j)
	case Get:
		return w.get(ctx, j)
	}
	return Answer{}, unknown(j)
}

// removeBatch is how many keys one call removes.
const removeBatch = 1000

func (w *storeWorker) remove(ctx context.Context, keys []model.Key) error {
	for at := 0; at < len(keys); at += removeBatch {
		if err := errors.Join(w.client.BatchRemove(ctx, keys[at:min(at+removeBatch, len(keys))], true)...); err != nil {
			return fmt.Errorf("remove: %w", err)
		}
	}
	return nil
}

// items are objects to put, one after the other in mem.
func items(keys []model.Key, mem []byte, size int) []store.Item {
	out := make([]store.Item, len(keys))
	for i, k := range keys {
		out[i] = store.Item{Key: k, Parts: [][]byte{mem[i*size : (i+1)*size]}}
	}
	return out
}

func (w *storeWorker) putItems(ctx context.Context, batch []store.Item) error {
	for _, r := range w.client.PutItems(ctx, batch, model.DefaultReplicateConfig()) {
		if r.Err != nil {
			return fmt.Errorf("put: %w", r.Err)
		}
	}
	return nil
}
