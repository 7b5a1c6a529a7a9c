package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"go.temporal.io/sdk/converter"

	"github.com/onceguard/onceguard/examples/internal/provider"
	"github.com/onceguard/onceguard/guard"
	"github.com/onceguard/onceguard/redisx"
	"github.com/onceguard/onceguard/telemetry"
	"github.com/onceguard/onceguard/temporalx"
)

// The operations outside of Temporal. Those of the activities are in guardActivities.
const (
	opLedger  = "ledger.post"   // fails closed, waits; has a kill switch
	opProfile = "profile.fetch" // fails open, waits
	opCoupon  = "coupon.redeem" // fails closed, refuses
	opIndex   = "search.index"  // the Run mode
	opReport  = "report.render" // fails open; takes longer than its lease
	opExport  = "batch.export"  // fails open; lets go of an action that outlives the lease
)

const (
	prefix      = "onceguard-serve"
	resultLimit = 16 << 10 // of report.render, in bytes
	retention   = 10 * time.Minute
)

// operations are the guarded effects outside of Temporal. Their action returns what it made.
type operations map[string]*guard.Operation[string]

func newOperations(g *guard.Guard, lease time.Duration, off *atomic.Bool) (operations, error) {
	settings := map[string][]guard.OperationOption{
		opLedger: {
			guard.OnStorageError(guard.FailClosed), guard.WithEnabled(func() bool { return !off.Load() }),
		},
		opProfile: {guard.OnStorageError(guard.FailOpen)},
		opCoupon:  {guard.OnStorageError(guard.FailClosed), guard.OnInFlight(guard.Refuse)},
		opIndex:   {guard.OnInFlight(guard.Run)},
		opReport:  {guard.WithMaxResultBytes(resultLimit), guard.WithWaitBound(10 * lease)},
		opExport:  {guard.WithMaxHold(lease / 4)}, // its limit is noticed by the first renewal
	}
	made := operations{}
	for name, options := range settings {
		op, err := guard.NewOperation[string](g, name, options...)
		if err != nil {
			return nil, err
		}
		made[name] = op
	}
	return made, nil
}

// newGuard is a guard on Redis.
func newGuard(rdb redis.UniversalClient, lease time.Duration, label string, tel *telemetry.Telemetry) (*guard.Guard, error) {
	store, err := redisx.New(rdb, redisx.Options{Prefix: prefix})
	if err != nil {
		return nil, err
	}
	options := []guard.GuardOption{
		guard.WithLease(lease), guard.WithRetention(retention), guard.WithHoldRetention(time.Hour),
		guard.WithOwnerLabel(fmt.Sprintf("%s/%d", label, os.Getpid())),
	}
	if tel != nil {
		options = append(options, guard.WithObserver(tel))
	}
	return guard.New(store, options...)
}

// openRedis is a client as package redisx wants it. The address is that of the proxy, or of Redis itself.
func openRedis(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1, PoolSize: 50})
}

// guardActivities guards the activities by the number of the order.
func guardActivities(g *guard.Guard, p provider.Client, lease time.Duration) (*temporalx.Plugin, error) {
	key := temporalx.KeyFrom(func(o provider.Order) (string, error) { return o.ID, nil })
	return temporalx.NewPlugin(g, temporalx.Options{
		DataConverter: converter.GetDefaultDataConverter(),
		Rules: []temporalx.Rule{
			{
				Activity: actCharge, Key: key, Recovery: temporalx.RecoverWith(askProvider(p)),
				Options: []guard.OperationOption{
					guard.ForPayments(), guard.OnFailure(whatItMeans), guard.WithSettleTime(lease / 4), guard.WithRetention(time.Hour),
				},
			},
			{
				Activity: actReceipt, Key: key,
				Options: []guard.OperationOption{guard.AtMostOnce(), guard.OnStorageError(guard.FailClosed)},
			},
			{Activity: actReserve, Key: key},
			{Activity: actApprove, Key: key},
		},
	})
}

// askProvider is the recovery hook of ChargeCard. The provider refuses smaller fences from then on.
func askProvider(p provider.Client) guard.RecoveryFunc[provider.Receipt] {
	return func(ctx context.Context, lost guard.Evidence) (provider.Receipt, guard.Finding, error) {
		receipts, err := p.Charges(ctx, lost.Key.Name, lost.Fence)
		switch {
		case err != nil:
			return provider.Receipt{}, guard.CannotTell, err
		case len(receipts) == 0:
			return provider.Receipt{}, guard.NotFound, nil
		default:
			return receipts[0], guard.Found, nil
		}
	}
}

// msgLost begins the line of package telemetry about a lost lease. It is written behind its call, so that
// a handler that stands still holds up nobody.
const msgLost = "onceguard: lease lost"

// blocking is a log handler that stands still at a lost lease of opExport while it is told to.
type blocking struct {
	slog.Handler
	stalled *atomic.Pointer[chan struct{}]
}

func (b blocking) Handle(ctx context.Context, r slog.Record) error {
	if until := b.stalled.Load(); until != nil && strings.HasPrefix(r.Message, msgLost) && isExport(r) {
		<-*until
	}
	return b.Handler.Handle(ctx, r)
}

func isExport(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		is = is || a.Key == telemetry.LogOperation && a.Value.String() == opExport
		return !is
	})
	return is
}
