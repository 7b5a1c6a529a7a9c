package guard

import "context"

// Watch implements [Notifier].
func (m *MemoryStore) Watch(ctx context.Context, req WatchRequest) (<-chan struct{}, func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	changed := make(chan struct{}, 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.watches == nil {
		m.watches = make(map[Key]map[chan struct{}]struct{})
	}
	if m.watches[req.Key] == nil {
		m.watches[req.Key] = make(map[chan struct{}]struct{})
	}
	m.watches[req.Key][changed] = struct{}{}
	return changed, func() { m.unwatch(req.Key, changed) }, nil
}

func (m *MemoryStore) unwatch(key Key, changed chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.watches[key], changed)
	if len(m.watches[key]) == 0 {
		delete(m.watches, key)
	}
}

// notify wakes those who watch a key. It is called with the lock held and never
// waits: who has an unread notice needs no other.
func (m *MemoryStore) notify(key Key) {
	for changed := range m.watches[key] {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}
