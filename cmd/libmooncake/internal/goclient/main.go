// Goclient is a client of a pool in Go that does what sdk/python/bench/client.py does, for
// comparison: it reads one piece of work as JSON from each line of its standard input and
// answers with a line of JSON. sdk/python/bench/measure.py starts it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"syscall"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/bindings/settings"
)

func main() {
	master := flag.String("master", "", "address of the master, host:port")
	segment := flag.String("segment", "0", "memory to contribute, in bytes")
	memory := flag.Int("memory", 128<<20, "registered memory, in bytes")
	flag.Parse()
	if err := serve(*master, *segment, *memory); err != nil {
		fmt.Fprintln(os.Stderr, "goclient:", err)
		os.Exit(1)
	}
}

// serve opens a client and works until the input ends.
func serve(master, segment string, size int) (err error) {
	ctx := context.Background()
	src := settings.Source{Environ: os.Environ(), Builtins: builtin.Plugins(), Log: os.Stderr}
	loaded, err := settings.Load(src, map[string]string{
		"local_hostname": "127.0.0.1", "metadata_server": "P2PHANDSHAKE", "master_server_address": master,
		"protocol": "tcp", "global_segment_size": segment, "local_buffer_size": "0",
	})
	if err != nil {
		return err
	}
	node, err := app.OpenNode(ctx, loaded.Config, src.Builtins, app.NodeOptions{Log: loaded.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close(ctx)) }()
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		return err
	}
	for i := range mem {
		mem[i] = byte(i >> 12)
	}
	if err := node.Client.RegisterBuffer(ctx, mem, ""); err != nil {
		return err
	}
	w := worker{client: node.Client, mem: mem}
	fmt.Println(`{"ready": true}`)
	lines, out := bufio.NewScanner(os.Stdin), json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var j job
		if err := json.Unmarshal(lines.Bytes(), &j); err != nil {
			return err
		}
		seconds, err := w.do(ctx, j)
		if err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
		if err := out.Encode(map[string][]float64{"seconds": seconds}); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), node.Client.UnregisterBuffer(ctx, mem))
}
