-- Who pays for a call, as a party with the same realm and agent, where that is not its caller: the sums count there. Not in
-- the checksum of the row, since the name may be deleted while the call is kept.
ALTER TABLE edges ADD COLUMN payer INTEGER;
