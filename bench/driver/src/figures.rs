//! What was measured: for each figure and server, one value a round.

use std::collections::BTreeMap;

/// All figures, in the order they were first heard of.
#[derive(Default)]
pub(crate) struct Figures {
    pub(crate) rows: Vec<Row>,
    /// Things to know when reading the table.
    pub(crate) notes: Vec<String>,
}

pub(crate) struct Row {
    pub(crate) group: &'static str,
    pub(crate) label: String,
    /// By server, by round.
    values: BTreeMap<&'static str, BTreeMap<usize, f64>>,
}

// === impl Figures ===

impl Figures {
    pub(crate) fn add(
        &mut self,
        group: &'static str,
        label: impl Into<String>,
        server: &'static str,
        round: usize,
        value: f64,
    ) {
        let label = label.into();
        let known = self.rows.iter().position(|row| row.group == group && row.label == label);
        let row = known.unwrap_or_else(|| {
            self.rows.push(Row { group, label, values: BTreeMap::new() });
            self.rows.len() - 1
        });
        self.rows[row].values.entry(server).or_default().insert(round, value);
    }

    /// The groups of rows, each once.
    pub(crate) fn groups(&self) -> Vec<&'static str> {
        let mut groups: Vec<&'static str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group) {
                groups.push(row.group);
            }
        }
        groups
    }

    pub(crate) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}

// === impl Row ===

impl Row {
    pub(crate) fn rounds(&self, server: &str) -> Vec<f64> {
        self.values.get(server).map(|rounds| rounds.values().copied().collect()).unwrap_or_default()
    }

    pub(crate) fn median(&self, server: &str) -> Option<f64> {
        median(self.rounds(server))
    }

    /// The median, over the rounds that both have, of one server's value to another's.
    pub(crate) fn ratio(&self, server: &str, base: &str) -> Option<f64> {
        let (own, base) = (self.values.get(server)?, self.values.get(base)?);
        let ratios = own
            .iter()
            .filter_map(|(round, value)| Some(value / base.get(round).filter(|base| **base > 0.0)?));
        median(ratios.collect())
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_pair_the_values_of_one_round() {
        let mut figures = Figures::default();
        for (round, base, own) in [(0, 10.0, 20.0), (1, 100.0, 300.0), (2, 1.0, 4.0)] {
            figures.add("unary", "cpu", "limit", round, base);
            figures.add("unary", "cpu", "other", round, own);
        }
        let row = &figures.rows[0];
        assert_eq!(row.median("limit"), Some(10.0));
        assert_eq!(row.ratio("other", "limit"), Some(3.0));
        assert_eq!(row.ratio("other", "absent"), None);
    }

    #[test]
    fn a_median_of_two_is_their_mean() {
        assert_eq!(median(vec![1.0, f64::NAN, 3.0]), Some(2.0));
        assert_eq!(median(vec![]), None);
    }
}
