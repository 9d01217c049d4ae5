package guard

import (
	"sync"

	"github.com/mooncake-go/mooncake/core/model"
)

// mostAssigned bounds the tasks that are remembered. A copy for a further one is refused where its tenant is
// another one than the caller's; the task fails, and whoever ordered it may order it again.
const mostAssigned = 1 << 16

// assigned are the objects of other tenants that tasks have clients copy: the memory that a client contributes
// is for all tenants, and so are the tasks that concern it.
type assigned struct {
	mu    sync.Mutex
	tasks map[model.TaskID]object
	of    map[object]model.TaskID
}

// object is an object that a client copies.
type object struct {
	client model.ClientID
	tenant model.Tenant
	key    model.Key
}

func (a *assigned) add(client model.ClientID, list []model.Assignment) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil {
		a.tasks, a.of = map[model.TaskID]object{}, map[object]model.TaskID{}
	}
	for i := range list {
		if len(a.tasks) >= mostAssigned {
			for id := range a.tasks { // Any one: its client may have ended without a word.
				a.drop(id)
				break
			}
		}
		o := object{client, list[i].Spec.Tenant, list[i].Spec.Key}
		a.tasks[list[i].ID], a.of[o] = o, list[i].ID
	}
}

func (a *assigned) has(o object) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.of[o]
	return ok
}

func (a *assigned) done(id model.TaskID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drop(id)
}

// drop has mu held.
func (a *assigned) drop(id model.TaskID) {
	o, ok := a.tasks[id]
	if !ok {
		return
	}
	delete(a.tasks, id)
	if a.of[o] == id {
		delete(a.of, o)
	}
}
