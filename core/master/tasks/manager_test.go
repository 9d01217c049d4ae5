package tasks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
)

var (
	alice = model.ClientID{Hi: 1, Lo: 1}
	bob   = model.ClientID{Hi: 2, Lo: 2}
	start = time.Unix(1000, 0)
)

func move(key string) model.TaskSpec {
	return model.TaskSpec{Kind: model.MoveObject, Tenant: "default", Key: key, Source: "a", Targets: []string{"b"}}
}

func create(t require.TestingT, m *Manager, key string, client model.ClientID, now time.Time) model.TaskID {
	id, err := m.Create(move(key), client, now)
	require.NoError(t, err)
	return id
}

func TestATaskFromCreateToItsEnd(t *testing.T) {
	m := New(DefaultConfig())
	var told []model.Task
	m.Listen(func(e model.Task) {
		told = append(told, e)
		require.Equal(t, 1, m.Stats().Finished, "the listener may ask")
	})
	spec := move("k")
	id, err := m.Create(spec, alice, start)
	require.NoError(t, err)
	spec.Targets[0] = "changed later"
	require.Empty(t, m.Fetch(bob, 10, start))
	require.Equal(t, []model.Assignment{{ID: id, Spec: move("k"), Created: start, MaxRetries: 10}}, m.Fetch(alice, 10, start.Add(1)))
	require.Empty(t, m.Fetch(alice, 10, start), "it is given out once")

	require.True(t, errs.Is(m.Complete(bob, id, model.TaskSuccess, "", start), errs.IllegalClient))
	require.True(t, errs.Is(m.Complete(alice, id, model.TaskProcessing, "", start), errs.InvalidParams))
	require.True(t, errs.Is(m.Complete(alice, model.TaskID{Hi: 9}, model.TaskSuccess, "", start), errs.TaskNotFound))
	require.NoError(t, m.Complete(alice, id, model.TaskSuccess, "ignored", start.Add(5)))
	require.NoError(t, m.Complete(alice, id, model.TaskSuccess, "", start.Add(6)), "again is a success")
	require.True(t, errs.Is(m.Complete(alice, id, model.TaskFailed, "", start), errs.UnavailableInCurrentStatus))

	want := model.Task{ID: id, Spec: move("k"), Status: model.TaskSuccess, Created: start, Updated: start.Add(5), Assigned: alice}
	got, err := m.Query(id)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Equal(t, []model.Task{want}, told)
	require.Equal(t, Stats{Finished: 1, Created: 1, Succeeded: 1}, m.Stats())
}

func TestLimits(t *testing.T) {
	m := New(Config{MaxPending: 2, MaxProcessing: 1, MaxFinished: 1})
	a, b := create(t, m, "a", alice, start), create(t, m, "b", alice, start)
	_, err := m.Create(move("c"), bob, start)
	require.True(t, errs.Is(err, errs.TaskPendingLimitExceeded))
	require.Len(t, m.Fetch(alice, 5, start), 1, "one may be in progress")
	require.Empty(t, m.Fetch(alice, 5, start))
	require.True(t, errs.Is(m.Complete(alice, b, model.TaskSuccess, "", start), errs.UnavailableInCurrentStatus), "it was not fetched")
	require.NoError(t, m.Complete(alice, a, model.TaskFailed, "no space", start))
	require.Len(t, m.Fetch(alice, 5, start), 1)
	require.NoError(t, m.Complete(alice, b, model.TaskSuccess, "", start))
	_, err = m.Query(a)
	require.True(t, errs.Is(err, errs.TaskNotFound), "the older one was forgotten")
	_, err = m.Query(b)
	require.NoError(t, err)
	require.Empty(t, m.clients, "a client without work costs nothing")
	require.Empty(t, m.Fetch(alice, -1, start))
}

func TestTimeouts(t *testing.T) {
	m := New(Config{MaxPending: 9, MaxProcessing: 9, MaxFinished: 9, PendingTimeout: 10 * time.Second, ProcessingTimeout: 5 * time.Second})
	never, taken := create(t, m, "never", bob, start), create(t, m, "taken", alice, start)
	m.Fetch(alice, 1, start.Add(9*time.Second))
	require.Zero(t, m.Tick(start.Add(10*time.Second-1)))
	require.Equal(t, 1, m.Tick(start.Add(10*time.Second)))
	require.Equal(t, 1, m.Tick(start.Add(14*time.Second)))
	for id, message := range map[model.TaskID]string{never: "pending timeout", taken: "processing timeout"} {
		got, err := m.Query(id)
		require.NoError(t, err)
		require.Equal(t, model.TaskFailed, got.Status)
		require.Equal(t, message, got.Message)
	}
	err := m.Complete(alice, taken, model.TaskSuccess, "", start)
	require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus))
	require.ErrorContains(t, err, "processing timeout")
	require.NoError(t, m.Complete(alice, taken, model.TaskFailed, "too late", start))
	require.EqualValues(t, 2, m.Stats().TimedOut)

	m = New(Config{MaxPending: 9, MaxProcessing: 9, MaxFinished: 9})
	create(t, m, "k", alice, start)
	require.Zero(t, m.Tick(start.Add(1000*time.Hour)), "0 is no timeout")
}

func TestATaskFailsWithItsClient(t *testing.T) {
	m := New(DefaultConfig())
	told := 0
	m.Listen(func(e model.Task) {
		told++
		require.Contains(t, e.Message, "expired")
	})
	create(t, m, "a", alice, start)
	create(t, m, "b", alice, start)
	other := create(t, m, "c", bob, start)
	m.Fetch(alice, 1, start)
	require.Equal(t, 2, m.Drop(alice, start))
	require.Zero(t, m.Drop(alice, start))
	require.Equal(t, 2, told)
	got, err := m.Query(other)
	require.NoError(t, err)
	require.Equal(t, model.TaskPending, got.Status)
}

func TestMessagesAreCut(t *testing.T) {
	require.Equal(t, "déjà", clip("déjà"))
	require.Equal(t, "a\uFFFDb", clip("a\xffb"))
	long := clip("x" + strings.Repeat("é", MaxMessage))
	require.LessOrEqual(t, len(long), MaxMessage)
	require.True(t, strings.HasSuffix(long, "é"))
}

func TestBadSpecsAreRefused(t *testing.T) {
	bad := map[string]func(*model.TaskSpec){
		"no key":          func(s *model.TaskSpec) { s.Key = "" },
		"bad tenant":      func(s *model.TaskSpec) { s.Tenant = "_all" },
		"no target":       func(s *model.TaskSpec) { s.Targets = nil },
		"two targets":     func(s *model.TaskSpec) { s.Targets = []string{"b", "c"} },
		"no source":       func(s *model.TaskSpec) { s.Source = "" },
		"to itself":       func(s *model.TaskSpec) { s.Targets = []string{"a"} },
		"empty target":    func(s *model.TaskSpec) { s.Targets = []string{""} },
		"huge target":     func(s *model.TaskSpec) { s.Targets = []string{strings.Repeat("x", 2000)} },
		"huge source":     func(s *model.TaskSpec) { s.Source = strings.Repeat("x", 2000) },
		"unknown kind":    func(s *model.TaskSpec) { s.Kind = 7 },
		"a target twice":  func(s *model.TaskSpec) { s.Kind, s.Targets = model.CopyObject, []string{"b", "b"} },
		"too many copies": func(s *model.TaskSpec) { s.Kind, s.Targets = model.CopyObject, make([]string, MaxTargets+1) },
	}
	m := New(DefaultConfig())
	for name, spoil := range bad {
		spec := move("k")
		spoil(&spec)
		_, err := m.Create(spec, alice, start)
		require.True(t, errs.Is(err, errs.InvalidParams), "%s: %v", name, err)
	}
	require.NoError(t, Validate(model.TaskSpec{Key: "k", Targets: []string{"b", "c"}}), "a copy from anywhere")
	require.NoError(t, DefaultConfig().Validate())
	require.Error(t, Config{MaxPending: -1}.Validate())
}

// A plain list of tasks behaves the same.
func TestAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			MaxPending: rapid.IntRange(0, 4).Draw(t, "pending"), MaxProcessing: rapid.IntRange(0, 3).Draw(t, "processing"),
			MaxFinished:    rapid.IntRange(0, 4).Draw(t, "finished"),
			PendingTimeout: time.Duration(rapid.IntRange(0, 5).Draw(t, "waits")), ProcessingTimeout: time.Duration(rapid.IntRange(0, 5).Draw(t, "takes")),
		}
		m := New(cfg)
		var order []model.TaskID
		m.Listen(func(e model.Task) { order = append(order, e.ID) })
		var all []*model.Task // in the order of creation
		var finished []model.TaskID
		now := start
		in := func(s model.TaskStatus) (out []*model.Task) {
			for _, e := range all {
				if e.Status == s {
					out = append(out, e)
				}
			}
			return out
		}
		end := func(e *model.Task, s model.TaskStatus, message string) {
			e.Status, e.Message, e.Updated = s, message, now
			finished = append(finished, e.ID)
		}
		clients := rapid.SampledFrom([]model.ClientID{alice, bob})
		t.Repeat(map[string]func(*rapid.T){
			"create": func(t *rapid.T) {
				w := clients.Draw(t, "client")
				id, err := m.Create(move("k"), w, now)
				require.Equal(t, len(in(model.TaskPending)) >= cfg.MaxPending, errs.Is(err, errs.TaskPendingLimitExceeded))
				if err == nil {
					all = append(all, &model.Task{ID: id, Spec: move("k"), Created: now, Updated: now, Assigned: w})
				}
			},
			"fetch": func(t *rapid.T) {
				w, n := clients.Draw(t, "client"), rapid.IntRange(0, 3).Draw(t, "n")
				var want []model.TaskID
				free := cfg.MaxProcessing - len(in(model.TaskProcessing))
				for _, e := range in(model.TaskPending) {
					if e.Assigned == w && len(want) < min(n, free) {
						e.Status, e.Updated = model.TaskProcessing, now
						want = append(want, e.ID)
					}
				}
				var got []model.TaskID
				for _, a := range m.Fetch(w, n, now) {
					got = append(got, a.ID)
				}
				require.Equal(t, want, got)
			},
			"complete": func(t *rapid.T) {
				if len(all) == 0 {
					t.Skip("no task")
				}
				e, w := rapid.SampledFrom(all).Draw(t, "task"), clients.Draw(t, "client")
				s := rapid.SampledFrom([]model.TaskStatus{model.TaskFailed, model.TaskSuccess}).Draw(t, "status")
				known := e.Status < model.TaskFailed || slices.Contains(finished[max(0, len(finished)-cfg.MaxFinished):], e.ID)
				err := m.Complete(w, e.ID, s, "", now)
				switch {
				case !known:
					require.True(t, errs.Is(err, errs.TaskNotFound), "%v", err)
				case e.Assigned != w:
					require.True(t, errs.Is(err, errs.IllegalClient), "%v", err)
				case e.Status == s:
					require.NoError(t, err)
				case e.Status != model.TaskProcessing:
					require.True(t, errs.Is(err, errs.UnavailableInCurrentStatus), "%v", err)
				default:
					require.NoError(t, err)
					end(e, s, "")
				}
			},
			"drop": func(t *rapid.T) {
				w := clients.Draw(t, "client")
				before := len(finished)
				for _, s := range []model.TaskStatus{model.TaskProcessing, model.TaskPending} {
					mine := slices.DeleteFunc(in(s), func(e *model.Task) bool { return e.Assigned != w })
					slices.SortStableFunc(mine, func(a, b *model.Task) int { return a.Updated.Compare(b.Updated) })
					for _, e := range mine {
						end(e, model.TaskFailed, clientExpired)
					}
				}
				require.Equal(t, len(finished)-before, m.Drop(w, now))
			},
			"tick": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "later")))
				var late []*model.Task
				for _, e := range slices.Concat(in(model.TaskPending), in(model.TaskProcessing)) {
					timeout := cfg.PendingTimeout
					if e.Status == model.TaskProcessing {
						timeout = cfg.ProcessingTimeout
					}
					if timeout > 0 && now.Sub(e.Updated) >= timeout {
						late = append(late, e)
					}
				}
				before := len(order)
				require.Equal(t, len(late), m.Tick(now))
				// Which client's tasks come first is open; the listener heard it.
				slices.SortFunc(late, func(a, b *model.Task) int { return slices.Index(order, a.ID) - slices.Index(order, b.ID) })
				for i, e := range late {
					require.Equal(t, e.ID, order[before+i])
					end(e, model.TaskFailed, map[bool]string{true: pendingTimeout, false: processingTimeout}[e.Status == model.TaskPending])
				}
			},
			"": func(t *rapid.T) {
				s := m.Stats()
				require.Equal(t, []int{len(in(model.TaskPending)), len(in(model.TaskProcessing)), min(len(finished), cfg.MaxFinished)},
					[]int{s.Pending, s.Processing, s.Finished})
				require.EqualValues(t, len(finished), s.Succeeded+s.Failed)
				require.Equal(t, finished, order, "every end is told once")
				for i, e := range all {
					got, err := m.Query(e.ID)
					if e.Status >= model.TaskFailed {
						if !slices.Contains(finished[max(0, len(finished)-cfg.MaxFinished):], e.ID) {
							require.True(t, errs.Is(err, errs.TaskNotFound))
							continue
						}
					}
					require.NoError(t, err, "task %d", i)
					require.Equal(t, *e, got)
				}
			},
		})
	})
}
