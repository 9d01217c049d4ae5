package netem

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/mooncake-go/mooncake/cmd/mooncake/builtin"
	"github.com/mooncake-go/mooncake/core/app"
	"github.com/mooncake-go/mooncake/core/model"
)

// storeClient puts and gets objects. The one beside the store, whose number is -1, puts what the
// others get, and checks what they put.
type storeClient struct {
	m      *member
	client *app.Client
	// What prepare made: the objects of the put.
	keys   []string
	values [][]byte
}

// mountLimit bounds the wait for the pool to have space.
const mountLimit = time.Minute

func openStoreClient(ctx context.Context, m *member) (actor, answer, error) {
	cfg, err := m.config()
	if err != nil {
		return nil, answer{}, err
	}
	c, err := app.OpenClient(ctx, cfg, builtin.Plugins(), app.ClientOptions{Log: memberLog()})
	if err != nil {
		return nil, answer{}, err
	}
	s := &storeClient{m: m, client: c}
	return s, answer{}, s.awaitSpace(ctx)
}

// awaitSpace puts one small object until the pool takes it.
func (s *storeClient) awaitSpace(ctx context.Context) error {
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := s.client.Store.Put(ctx, fmt.Sprintf("space/%d", s.m.Number), []byte("x"), model.DefaultReplicateConfig())
		if err == nil || time.Since(begin) > mountLimit {
			return err
		}
	}
}

// objects are the keys and values of one client's get or put.
func (s *storeClient) objects(command string, client int) (keys []string, values [][]byte) {
	all := make([]byte, requests*s.m.Size)
	pattern(all, seedOf(command, client))
	for i := range requests {
		keys = append(keys, fmt.Sprintf("%s/%d/%d", command, client, i))
		values = append(values, all[i*s.m.Size:][:s.m.Size:s.m.Size])
	}
	return keys, values
}

func (s *storeClient) do(ctx context.Context, command string) (answer, error) {
	var a answer
	switch command {
	case "prepare":
		s.keys, s.values = s.objects("put", s.m.Number)
	case "put":
		s.put(ctx, &a)
	case "get":
		s.get(ctx, &a, command, s.m.Number)
	case "fill":
		for i := range s.m.Clients {
			s.keys, s.values = s.objects("get", i)
			s.put(ctx, &a)
		}
	case "check":
		// What cannot be read is a put that failed, or one failure more.
		for i := range s.m.Clients {
			s.get(ctx, &a, "put", i)
		}
	default:
		return a, fmt.Errorf("no such command: %s", command)
	}
	return a, nil
}

// put stores what was prepared.
func (s *storeClient) put(ctx context.Context, a *answer) {
	a.Requests += len(s.keys)
	begin := time.Now()
	results := s.client.Store.BatchPut(ctx, s.keys, s.values, model.DefaultReplicateConfig())
	a.Seconds = time.Since(begin).Seconds()
	for _, err := range results {
		if err != nil {
			a.fails(err)
		}
	}
}

func (s *storeClient) get(ctx context.Context, a *answer, command string, client int) {
	keys, values := s.objects(command, client)
	a.Requests += len(keys)
	begin := time.Now()
	results := s.client.Store.BatchGet(ctx, keys)
	a.Seconds = time.Since(begin).Seconds()
	for i, r := range results {
		switch {
		case r.Err != nil:
			a.fails(r.Err)
		case !bytes.Equal(r.Value, values[i]):
			a.Wrong++
		}
	}
}
