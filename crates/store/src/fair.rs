//! Who gives how much where there is too much: those who have most, down to what they then have alike. Nobody else loses anything.

/// How much each is to give, so that nobody has more than `each` and all together no more than `all`. Only those that give are
/// named.
pub(crate) fn surplus<O>(sizes: Vec<(O, usize)>, all: usize, each: usize) -> Vec<(O, usize)> {
    let total = |level: usize| sizes.iter().map(|(_, size)| (*size).min(level)).sum::<usize>();
    let mut level = sizes.iter().map(|(_, size)| *size).max().unwrap_or_default().min(each);
    if total(level) > all {
        // The highest level at which there is not too much.
        let (mut fits, mut exceeds) = (0, level);
        while exceeds - fits > 1 {
            let middle = fits + (exceeds - fits) / 2;
            if total(middle) > all { exceeds = middle } else { fits = middle }
        }
        level = fits;
    }
    let gives = sizes.into_iter().map(|(owner, size)| (owner, size.saturating_sub(level)));
    gives.filter(|(_, gives)| *gives > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::surplus;

    #[test]
    fn who_has_most_gives_and_who_has_little_does_not() {
        let of = |all, each| surplus(vec![("much", 100), ("some", 30), ("little", 3)], all, each);
        assert_eq!(of(133, 100), []);
        assert_eq!(of(132, 100), [("much", 1)]);
        assert_eq!(of(63, 100), [("much", 70)]);
        assert_eq!(of(43, 100), [("much", 80), ("some", 10)]);
        assert_eq!(of(0, 100), [("much", 100), ("some", 30), ("little", 3)]);
    }

    #[test]
    fn nobody_has_more_than_each_may() {
        let of = |each| surplus(vec![("much", 100), ("some", 30)], 1_000, each);
        assert_eq!(of(30), [("much", 70)]);
        assert_eq!(of(20), [("much", 80), ("some", 10)]);
        assert_eq!(surplus(Vec::<((), usize)>::new(), 0, 0), []);
    }
}
