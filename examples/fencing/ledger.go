package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ErrFenceTooOld means that somebody with a larger fence has been here: the write was not
// made.
var ErrFenceTooOld = errors.New("the fence is too old, somebody else has the order by now: nothing was written")

// Entry is a line of the ledger.
type Entry struct {
	Order string
	Cents int64
	Clerk string // who wrote it
}

// Ledger has one row for each order, with the largest fence that was seen for it. A row
// without cents is one that was asked for before it was written.
type Ledger struct{ db *sql.DB }

// Create makes the table, if it is not there.
func (l Ledger) Create(ctx context.Context) error {
	_, err := l.db.ExecContext(ctx, `
		create table if not exists ledger (
			name  text primary key,
			cents bigint,
			clerk text,
			fence bigint not null
		)`)
	return err
}

// Write books an entry, unless its fence is smaller than the row's. The check and the write are one
// statement: PostgreSQL locks the row before it looks at the condition.
func (l Ledger) Write(ctx context.Context, e Entry, fence int64) error {
	done, err := l.db.ExecContext(ctx, `
		insert into ledger (name, cents, clerk, fence) values ($1, $2, $3, $4)
		on conflict (name) do update
			set cents = excluded.cents, clerk = excluded.clerk, fence = excluded.fence
			where ledger.fence <= excluded.fence`,
		e.Order, e.Cents, e.Clerk, fence)
	if err != nil {
		return err
	}
	rows, err := done.RowsAffected()
	if err == nil && rows == 0 {
		err = fmt.Errorf("%w (%d)", ErrFenceTooOld, fence)
	}
	return err
}

// Ask tells what is written for an order, and lets nobody with a smaller fence write it from
// then on. So an answer of false is final for whoever was before.
func (l Ledger) Ask(ctx context.Context, name string, fence int64) (e Entry, found bool, err error) {
	var cents sql.NullInt64
	var clerk sql.NullString
	err = l.db.QueryRowContext(ctx, `
		insert into ledger (name, fence) values ($1, $2)
		on conflict (name) do update
			set fence = excluded.fence
			where ledger.fence <= excluded.fence
		returning cents, clerk`,
		name, fence).Scan(&cents, &clerk)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("%w (%d)", ErrFenceTooOld, fence)
	}
	return Entry{Order: name, Cents: cents.Int64, Clerk: clerk.String}, cents.Valid, err
}
