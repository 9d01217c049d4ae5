package storeservice_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/rest/storeservice"
	"github.com/mooncake-go/mooncake/core/model"
)

func (w *world) decode(file string) (int, []string) {
	rec := w.do("POST", "/api/reconfigure", fmt.Sprintf(`{"mode":"decode","path":"%s/%s","size":8192,"grace_period_seconds":2}`, w.dir, file))
	var answer struct {
		IDs []string `json:"segment_ids"`
	}
	_ = json.Unmarshal(rec.Body.Bytes(), &answer) // An error has none.
	return rec.Code, answer.IDs
}

// TestReconfigureMakesBeforeItBreaks, and touches only what it has mounted itself.
func TestReconfigureMakesBeforeItBreaks(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	require.Equal(t, 200, w.do("POST", "/api/mount", `{"size":4096}`).Code)
	code, ids := w.decode("shm-1")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"7-2"}, ids)
	code, ids = w.decode("shm-1")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"7-2"}, ids, "it has that one")
	code, ids = w.decode("shm-2")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"7-3"}, ids)
	require.Equal(t, []time.Duration{2 * time.Second}, w.graces)
	require.Equal(t, 200, w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`).Code)
	assert.Equal(t, []string{"mount 7-1", "mount 7-2", "mount 7-3", "unmount 7-2", "unmount 7-3"}, w.log)
	assert.Equal(t, 200, w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`).Code, "there is nothing to take out")
}

// TestReconfigureKeepsWhatItCannotReplace, and takes out later what it could not.
func TestReconfigureKeepsWhatItCannotReplace(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	_, ids := w.decode("shm-1")
	w.full = true
	code, _ := w.decode("shm-2")
	require.Equal(t, 500, code)
	require.Equal(t, ids, w.Tracked())
	w.full = false

	first, err := model.ParseUUID(ids[0])
	require.NoError(t, err)
	w.refuse[first] = true
	old := ids[0]
	for range 2 {
		code, ids = w.decode("shm-2")
		require.Equal(t, 200, code, "the new one serves")
		require.Equal(t, []string{"7-2", old}, ids, "the old one is there, too")
		require.Len(t, w.Segments(), 2)
	}
	delete(w.refuse, first)
	code, ids = w.decode("shm-2")
	require.Equal(t, 200, code, "the same request finishes it")
	require.Equal(t, []string{"7-2"}, ids)
	require.Len(t, w.Segments(), 1)

	second, err := model.ParseUUID("7-2")
	require.NoError(t, err)
	w.refuse[second] = true
	rec := w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`)
	require.Equal(t, 500, rec.Code)
	require.Contains(t, rec.Body.String(), `"mode":"decode"`)
	delete(w.refuse, second)
	require.Equal(t, 200, w.do("POST", "/api/reconfigure", `{"mode":"PREFILL"}`).Code)
	code, ids = w.decode("shm-2")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"7-3"}, ids)

	require.Equal(t, 200, w.do("POST", "/api/unmount", `{"segment_ids":"7-3"}`).Code)
	require.Empty(t, w.Tracked(), "unmounted by the other route")
	code, ids = w.decode("shm-2")
	require.Equal(t, 200, code)
	require.Equal(t, []string{"7-4"}, ids, "so it is mounted anew")
	require.NoError(t, w.UnmountSegments(t.Context(), []model.SegmentID{{Hi: 7, Lo: 4}}, 0)) // behind the service's back
	require.Equal(t, 200, w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`).Code)
}

// TestSegmentsNeverLeak: after any sequence of requests, some of which fail, the node has
// what was mounted and not unmounted, and prefill leaves nothing of reconfigure.
func TestSegmentsNeverLeak(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t, storeservice.Options{})
		mine := map[string]bool{}
		r.Repeat(map[string]func(*rapid.T){
			"": func(r *rapid.T) {
				want := len(mine) + len(w.Tracked())
				if got := len(w.Segments()); got != want {
					r.Fatalf("%d segments are mounted, %d are known", got, want)
				}
			},
			"decode": func(r *rapid.T) {
				w.full = rapid.Bool().Draw(r, "full")
				before := w.Tracked()
				code, ids := w.decode(rapid.SampledFrom([]string{"shm-1", "shm-2", "none"}).Draw(r, "file"))
				w.full = false
				after := w.Tracked()
				if code == 200 && !assert.ObjectsAreEqual(ids, after) || code != 200 && !assert.ObjectsAreEqual(before, after) {
					r.Fatalf("status %d with %v: %v became %v", code, ids, before, after)
				}
			},
			"prefill": func(r *rapid.T) {
				if w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`).Code != 200 || len(w.Tracked()) != 0 {
					r.Fatal("prefill left something")
				}
			},
			"mount": func(r *rapid.T) {
				rec := w.do("POST", "/api/mount", `{"size":4096}`)
				var answer struct {
					IDs []string `json:"segment_ids"`
				}
				if json.Unmarshal(rec.Body.Bytes(), &answer) != nil || len(answer.IDs) != 1 {
					r.Fatal(rec.Body.String())
				}
				mine[answer.IDs[0]] = true
			},
			"unmount": func(r *rapid.T) {
				for id := range mine {
					if w.do("POST", "/api/unmount", `{"segment_ids":"`+id+`"}`).Code != 200 {
						r.Fatal("unmount")
					}
					delete(mine, id)
					break
				}
			},
		})
		w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`)
		for id := range mine {
			w.do("POST", "/api/unmount", `{"segment_ids":"`+id+`"}`)
		}
	})
}

// TestChangesTakeTurns: any number at once end in one role, with nothing left over.
func TestChangesTakeTurns(t *testing.T) {
	w := newWorld(t, storeservice.Options{})
	var done sync.WaitGroup
	for i := range 32 {
		done.Go(func() {
			code, _ := w.decode([]string{"shm-1", "shm-2"}[i%2])
			assert.Equal(t, 200, code)
		})
	}
	done.Wait()
	assert.Len(t, w.Segments(), 1)
	assert.Equal(t, w.Segments()[0].ID.String(), strings.Join(w.Tracked(), ","))
	require.Equal(t, 200, w.do("POST", "/api/reconfigure", `{"mode":"prefill"}`).Code)
}
