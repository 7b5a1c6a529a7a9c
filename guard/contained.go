package guard

import (
	"context"
	"fmt"
)

// containedStore turns a panic in a store, or in a hook of its client, into an
// error: half of the calls come from goroutines that nobody else would recover.
type containedStore struct{ Store }

func (s containedStore) Reserve(ctx context.Context, req ReserveRequest) (reply ReserveReply, err error) {
	defer recovered(&err)
	return s.Store.Reserve(ctx, req)
}

func (s containedStore) Renew(ctx context.Context, req RenewRequest) (reply RenewReply, err error) {
	defer recovered(&err)
	return s.Store.Renew(ctx, req)
}

func (s containedStore) Replace(ctx context.Context, req ReplaceRequest) (reply ReplaceReply, err error) {
	defer recovered(&err)
	return s.Store.Replace(ctx, req)
}

func (s containedStore) Release(ctx context.Context, req ReleaseRequest) (reply ReleaseReply, err error) {
	defer recovered(&err)
	return s.Store.Release(ctx, req)
}

func (s containedStore) Load(ctx context.Context, req LoadRequest) (reply LoadReply, err error) {
	defer recovered(&err)
	return s.Store.Load(ctx, req)
}

func (s containedStore) Hold(ctx context.Context, req HoldRequest) (reply HoldReply, err error) {
	holder, ok := s.Store.(Holder)
	if !ok {
		return reply, fmt.Errorf("the store %s cannot hold a key", storeName(s.Store))
	}
	defer recovered(&err)
	return holder.Hold(ctx, req)
}

// recovered is deferred itself, so that its recover counts.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v", p)
	}
}
