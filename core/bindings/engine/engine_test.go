package engine_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bindings/engine"
	metahttp "github.com/mooncake-go/mooncake/core/metadata/http"
	"github.com/mooncake-go/mooncake/core/metadata/memory"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/etcdserver"
	"github.com/mooncake-go/mooncake/core/metadata/storetest/redisserver"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

// Each way to find peers, in the words of the program.
func TestInitialize(t *testing.T) {
	srv := httptest.NewServer(metahttp.NewHandler(memory.New(memory.Limits{}), nil))
	defer srv.Close()
	etcd, redis := etcdserver.New(t).Address, redisserver.New(t).Address
	for name, say := range map[string]map[string]string{
		"p2p":           {"metadata_server": "P2PHANDSHAKE"},
		"p2p by type":   {"metadata_server": "", "metadata_type": "P2PHANDSHAKE"},
		"rdma without":  {"metadata_server": "P2PHANDSHAKE", "protocol": "rdma"},
		"http":          {"metadata_server": srv.URL + "/metadata"},
		"etcd":          {"metadata_server": "etcd://" + etcd},
		"etcd bare":     {"metadata_server": etcd},
		"etcd by type":  {"metadata_server": etcd, "metadata_type": "etcd"},
		"redis":         {"metadata_server": "redis://" + redis},
		"redis by type": {"metadata_server": redis, "metadata_type": "redis"},
		"a device name": {"metadata_server": "P2PHANDSHAKE", "protocol": "rdma", "device_name": "mlx5_0"},
	} {
		t.Run(name, func(t *testing.T) {
			engines := [2]*engine.Engine{}
			for i := range engines {
				given := map[string]string{"local_hostname": fmt.Sprintf("127.0.0.1:%d", 28001+i), "protocol": "tcp", "device_name": ""}
				for k, v := range say {
					given[k] = v
				}
				text, err := json.Marshal(given)
				require.NoError(t, err)
				engines[i] = engine.New(source())
				t.Cleanup(engines[i].Shut)
				require.NoError(t, engines[i].Initialize(string(text)))
				if strings.HasPrefix(name, "p2p") {
					require.Equal(t, fmt.Sprintf("127.0.0.1:%d", engines[i].RPCPort()), engines[i].Name())
				} else if name == "http" {
					require.Equal(t, given["local_hostname"], engines[i].Name())
				}
				require.NotZero(t, engines[i].RPCPort())
			}
			mem := make([]byte, 4096)
			require.NoError(t, engines[0].Register([][]byte{mem}, "*", true))
			kind, list := write([]byte("hello"), at(mem, 7))
			require.NoError(t, engines[1].Transfer(engines[0].Name(), kind, list, nil))
			require.Equal(t, "hello", string(mem[7:12]))
			addr, err := engines[1].FirstBuffer("/" + engines[0].Name())
			require.NoError(t, err)
			require.Equal(t, at(mem, 0), addr)
			require.NoError(t, engines[1].Probe(engines[0].Name()))
		})
	}
}

func TestWhatCannotBeInitialized(t *testing.T) {
	for want, o := range map[string]engine.Options{
		"local_hostname is empty": {Metadata: "http://127.0.0.1:1/metadata"},
		"xgmi":                    {Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "xgmi"},
		"ftp://h":                 {Name: "127.0.0.1", Metadata: "ftp://h", Protocol: "tcp"},
		"refused":                 {Name: "127.0.0.1:28009", Metadata: "http://127.0.0.1:1/metadata", Protocol: "tcp"},
		"nosuch":                  {Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Transports: []string{"nosuch"}},
		"RDMA device":             {Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Transports: []string{"rdma"}, Devices: "nosuch0"},
	} {
		e := engine.New(source())
		require.ErrorContains(t, e.Start(o), want)
		require.Contains(t, e.LastError(), want)
		require.NoError(t, e.Start(engine.Options{Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "tcp"}), "it can be tried again")
		require.ErrorContains(t, e.Start(o), "initialized already")
		e.Shut()
		e.Shut()
		require.ErrorContains(t, e.Start(o), "freed")
	}
	_, err := engine.ParseOptions(`{"local_hostname": 5}`)
	require.Equal(t, errs.InvalidParams, errs.CodeOf(err))
}

func TestForcedTCPIsTCP(t *testing.T) {
	e := engine.New(source("MC_FORCE_TCP=1"))
	t.Cleanup(e.Shut)
	require.NoError(t, e.Start(engine.Options{Name: "127.0.0.1", Metadata: "P2PHANDSHAKE", Protocol: "rdma"}))
	core, err := e.Core()
	require.NoError(t, err)
	d := core.Transfer.Descriptor()
	require.Len(t, d.Transports, 1)
	require.Equal(t, "tcp", d.Transports[0].Name)
}

// Every call on an engine that is not initialized, or not any more, says so and does nothing.
func TestBeforeAndAfter(t *testing.T) {
	for _, e := range []*engine.Engine{engine.New(source()), started(t)} {
		e.Shut()
		kind, list := write([]byte("x"), 1)
		_, submitted := e.Submit("peer", kind, list)
		_, first := e.FirstBuffer("peer")
		_, allocated := e.Allocate(1)
		_, core := e.Core()
		_, deadline := e.Deadline(1)
		for _, err := range []error{
			submitted, first, allocated, core, deadline, e.Register([][]byte{{1}}, "", true), e.Unregister([]uint64{1}), e.Release(1),
			e.Transfer("peer", kind, list, nil), e.Wait([]uint64{1}), e.Probe("peer"), e.EnsurePeer("peer"), e.Sync(""), e.Notify("peer", engine.Notice{}),
		} {
			require.ErrorContains(t, err, "not initialized")
			require.Equal(t, errs.UnavailableInCurrentStatus, errs.CodeOf(err))
		}
		require.Equal(t, engine.Failed, e.Check(1))
		require.Zero(t, e.RPCPort())
		require.Empty(t, e.Name())
		require.Empty(t, e.Notices())
		require.Empty(t, e.Loads())
	}
}

func TestTopology(t *testing.T) {
	for _, devices := range []string{"", "nosuch0"} {
		text, err := engine.Topology(source()(), devices)
		require.NoError(t, err)
		var matrix map[string][2][]string
		require.NoError(t, json.Unmarshal([]byte(text), &matrix), text)
		require.NotContains(t, text, "nosuch0")
		require.NotEmpty(t, matrix)
	}
}

// A store that shares the engine goes on with it, and its peers cannot reach memory of the
// program any more.
func TestSharedEngineOutlivesItsProgram(t *testing.T) {
	e, mem := opened(t, 4096)
	core, err := e.Core()
	require.NoError(t, err)
	require.True(t, core.Hold())
	e.Shut()
	require.Empty(t, core.Transfer.Descriptor().Buffers)
	kind, list := write([]byte("x"), at(mem, 0))
	require.Error(t, started(t).Transfer(core.Name(), kind, list, nil))
	require.Zero(t, mem[0])
	require.NoError(t, core.Close(t.Context()))
}
